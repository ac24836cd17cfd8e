package launch;

import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Names of nodes as Slurm writes them: `login,cn[001-003,7],r[1-2]n[1-4]`. */
final class NodeList {
    private static final int MOST = 65536;
    private static final Pattern NAME = Pattern.compile("[A-Za-z0-9._-]+");
    private static final Pattern RANGE = Pattern.compile("(\\d{1,9})(?:-(\\d{1,9}))?");

    private NodeList() {}

    /** The names in their order; IllegalArgumentException where the text is no such list. */
    static List<String> expand(String text) {
        List<String> names = new ArrayList<>();
        int depth = 0, start = 0;
        for (int at = 0; at <= text.length(); at++) {
            char letter = at < text.length() ? text.charAt(at) : ',';
            depth += letter == '[' ? 1 : letter == ']' ? -1 : 0;
            if (depth < 0 || depth > 1 || at == text.length() && depth != 0) throw wrong(text);
            if (letter == ',' && depth == 0) {
                names.addAll(one(text.substring(start, at), text));
                start = at + 1;
            }
            if (names.size() > MOST) throw wrong(text);
        }
        return names;
    }

    /** The names that one word stands for, all of whose brackets are filled in. */
    private static List<String> one(String word, String text) {
        int open = word.indexOf('['), close = word.indexOf(']');
        if (open < 0) {
            if (!NAME.matcher(word).matches()) throw wrong(text);
            return List.of(word);
        }
        List<String> names = new ArrayList<>();
        for (String part : word.substring(open + 1, close).split(",", -1)) {
            Matcher range = RANGE.matcher(part);
            if (!range.matches()) throw wrong(text);
            String first = range.group(1);
            int from = Integer.parseInt(first),
                to = range.group(2) == null ? from : Integer.parseInt(range.group(2));
            if (to < from || to - from >= MOST) throw wrong(text);
            for (int number = from; number <= to && names.size() <= MOST; number++)
                names.addAll(
                    one(word.substring(0, open) + String.format("%0" + first.length() + "d", number)
                            + word.substring(close + 1),
                        text));
        }
        return names;
    }

    private static IllegalArgumentException wrong(String text) {
        return new IllegalArgumentException(
            "'" + text + "' is no list of nodes as Slurm writes them");
    }
}
