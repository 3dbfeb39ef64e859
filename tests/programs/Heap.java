/** Fills 64 MiB of Java heap and prints how many kB of its memory are on huge pages. */
public class Heap {
    public static void main(String[] arguments) throws java.io.IOException {
        byte[][] blocks = new byte[64][];
        for (int i = 0; i < blocks.length; i++) {
            blocks[i] = new byte[1 << 20];
            java.util.Arrays.fill(blocks[i], (byte) i);
        }
        long kilobytes = 0;
        for (String line : java.nio.file.Files.readAllLines(java.nio.file.Path.of("/proc/self/smaps_rollup")))
            if (line.startsWith("AnonHugePages:"))
                kilobytes = Long.parseLong(line.replaceAll("[^0-9]", ""));
        System.out.println(kilobytes + blocks[63][7] - 63);
    }
}
