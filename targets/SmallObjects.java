import java.util.ArrayList;
import java.util.List;

/**
 * Many small objects that one thread makes, and four threads read a quarter each, so often; with `own`, each makes its
 * own. No one of them is large enough to be told by itself.
 */
public final class SmallObjects {
    static final int PART = 1 << 15, THREADS = 4;

    static final class Particle {
        double x, y, z, weight;

        Particle(int i) {
            x = i;
            y = 2.0 * i;
            weight = 1;
        }
    }

    static List<Particle> make(int from, int to) {
        List<Particle> made = new ArrayList<>(to - from);
        for (int i = from; i < to; i++) {
            made.add(new Particle(i)); // [allocated]
        }
        return made;
    }

    static double energy(List<Particle> all, int from, int to) {
        double energy = 0;
        for (int i = from; i < to; i++) {
            Particle one = all.get(i);
            energy += one.weight * (one.x * one.x + one.y * one.y + one.z * one.z); // [read]
        }
        return energy;
    }

    public static void main(String[] arguments) throws InterruptedException {
        boolean own = arguments[0].equals("own");
        int turns = Integer.parseInt(arguments[1]);
        List<Particle> all = own ? null : make(0, PART * THREADS);
        double[] found = new double[THREADS];
        Thread[] threads = new Thread[THREADS];
        for (int k = 0; k < THREADS; k++) {
            int me = k;
            threads[k] = new Thread(() -> {
                List<Particle> mine = own ? make(0, PART) : all;
                int from = own ? 0 : PART * me;
                for (int turn = 0; turn < turns; turn++) {
                    found[me] += energy(mine, from, from + PART);
                }
            });
            threads[k].start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        System.out.println(found[0] + found[1] + found[2] + found[3]);
    }
}
