import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.IntFunction;

/** Holds memory that five methods have made, "NAME BYTES" for each: java Sites */
public class Sites {
    static final int MIB = 1 << 20, HEADER = 16, WARM = 12_000;
    static final List<Object> HELD = new ArrayList<>(1 << 17);

    static Object fillsBlock(int bytes) {
        byte[] block = new byte[bytes];
        Arrays.fill(block, (byte) 1);
        return block;
    }

    static Object countsNumbers(int bytes) {
        long[] numbers = new long[bytes / 8];
        for (int i = 0; i < numbers.length; i++)
            numbers[i] = i;
        return numbers;
    }

    static Object namesThing(int bytes) {
        char[] name = new char[bytes / 2];
        Arrays.fill(name, 'n');
        return name;
    }

    static Object linksNode(int bytes) {
        Object[] node = new Object[bytes / 4];
        node[0] = HELD;
        return node;
    }

    static Object drawsRow(int bytes) {
        return new int[bytes / 4];
    }

    /** Pieces of `each` bytes with their headers, after as many small ones as it takes to have the method compiled. */
    static void hold(String name, IntFunction<Object> method, int bytes, int each) {
        for (int i = 0; i < WARM; i++)
            method.apply(HEADER);
        for (int done = 0; done < bytes; done += each)
            HELD.add(method.apply(each - HEADER));
        System.out.println(name + " " + bytes);
    }

    public static void main(String[] arguments) {
        hold("fillsBlock", Sites::fillsBlock, 48 * MIB, 64 << 10);
        hold("countsNumbers", Sites::countsNumbers, 32 * MIB, 32 << 10);
        hold("namesThing", Sites::namesThing, 20 * MIB, 8 << 10);
        hold("linksNode", Sites::linksNode, 12 * MIB, 512);
        hold("drawsRow", Sites::drawsRow, 8 * MIB, 4 << 10);
        System.exit(HELD.isEmpty() ? 1 : 0);
    }
}
