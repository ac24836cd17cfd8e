package launch;

/** Prints what the launcher makes of each list of nodes, or why it makes nothing of it. */
public final class Pure {
    private Pure() {}

    public static void main(String[] lists) {
        for (String list : lists) {
            try {
                System.out.println(String.join(" ", NodeList.expand(list)));
            } catch (IllegalArgumentException error) {
                System.out.println("! " + error.getMessage());
            }
        }
        System.out.println(NearmetalRun.configuration(4, "10.0.0.1", 18032));
    }
}
