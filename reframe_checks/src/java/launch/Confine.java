package launch;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * Writes, below a directory that comes before the library on the class path, MPJ Express's
 * NIODevice with JobAddress in place of InetSocketAddress: as it is, it listens on all networks,
 * whatever it is told. One entry of the class's constants changes.
 */
public final class Confine {
    private static final String CLASS = "xdev/niodev/NIODevice.class";
    private static final String FROM = "java/net/InetSocketAddress", TO = "launch/JobAddress";

    private Confine() {}

    public static void main(String[] arguments) throws IOException {
        byte[] plain;
        try (InputStream stream = ClassLoader.getSystemResourceAsStream(CLASS)) {
            if (stream == null) throw new IOException("no " + CLASS + " is on the class path");
            plain = stream.readAllBytes();
        }
        Path path = Path.of(arguments[0], CLASS);
        Files.createDirectories(path.getParent());
        Files.write(path, confined(plain));
    }

    /** The class file with the one constant changed; IOException where that is not there once. */
    static byte[] confined(byte[] plain) throws IOException {
        DataInputStream in = new DataInputStream(new ByteArrayInputStream(plain));
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        DataOutputStream out = new DataOutputStream(bytes);
        if (in.readInt() != 0xCAFEBABE) throw new IOException("NIODevice is no class file");
        out.writeInt(0xCAFEBABE);
        out.writeInt(in.readInt());
        int constants = in.readUnsignedShort(), changed = 0;
        out.writeShort(constants);
        for (int index = 1; index < constants; index++) {
            int tag = in.readUnsignedByte();
            out.writeByte(tag);
            switch (tag) {
                case 1 -> {
                    String text = in.readUTF();
                    changed += text.equals(FROM) ? 1 : 0;
                    out.writeUTF(text.equals(FROM) ? TO : text);
                }
                case 7, 8, 16, 19, 20 -> out.write(in.readNBytes(2));
                case 15 -> out.write(in.readNBytes(3));
                case 3, 4, 9, 10, 11, 12, 17, 18 -> out.write(in.readNBytes(4));
                case 5, 6 -> {
                    out.write(in.readNBytes(8));
                    index++;  // they count for two
                }
                default -> throw new IOException("NIODevice has a constant of unknown kind " + tag);
            }
        }
        if (changed != 1)
            throw new IOException(
                "NIODevice names " + FROM + " " + changed + " times instead of once");
        out.write(in.readAllBytes());
        return bytes.toByteArray();
    }
}
