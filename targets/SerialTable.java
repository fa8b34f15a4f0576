/** A table of longs that one thread fills, and four threads read a quarter each; with `own`, each fills its own. */
public class SerialTable {
    static final int PART = 1 << 19, THREADS = 4;
    static int turns;

    static long[] make(int length) {
        return new long[length]; // [allocated]
    }

    static void fill(long[] table) {
        for (int i = 0; i < table.length; i++) {
            table[i] = i;
        }
    }

    static long sum(long[] table, int from, int to) {
        long sum = 0;
        for (int i = from; i < to; i++) {
            sum += table[i]; // [read]
        }
        return sum;
    }

    static long rounds(long[] table, int from, int to) {
        long sum = 0;
        for (int round = 0; round < turns; round++) {
            sum += sum(table, from, to);
        }
        return sum;
    }

    public static void main(String[] arguments) throws InterruptedException {
        boolean own = arguments[0].equals("own");
        turns = Integer.parseInt(arguments[1]);
        long[] shared = make(own ? 1 : PART * THREADS);
        fill(shared);
        long[] sums = new long[THREADS];
        Thread[] threads = new Thread[THREADS];
        for (int k = 0; k < THREADS; k++) {
            int me = k;
            threads[k] = new Thread(() -> {
                long[] table = own ? make(PART) : shared;
                if (own) {
                    fill(table);
                }
                sums[me] = own ? rounds(table, 0, PART) : rounds(table, me * PART, (me + 1) * PART);
            });
            threads[k].start();
        }
        long sum = 0;
        for (int k = 0; k < THREADS; k++) {
            threads[k].join();
            sum += sums[k];
        }
        System.out.println(sum);
    }
}
