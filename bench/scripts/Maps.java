import java.util.HashMap;

// A hash map, a sieve, strings: compiled by the launcher first.
public class Maps {
    public static void main(String[] arguments) {
        long sum = 0;
        for (int round = 0; round < 10; round++) {
            HashMap<Integer, Integer> map = new HashMap<>();
            for (int i = 0; i < 1000000; i++) map.merge((i * 7919) & 0x3ffff, i, Integer::sum);
            for (int value : map.values()) sum += value;
            boolean[] composite = new boolean[8000000];
            for (int i = 2; i < composite.length; i++)
                if (!composite[i]) for (long j = (long) i * i; j < composite.length; j += i) composite[(int) j] = true;
            StringBuilder text = new StringBuilder();
            for (int i = 0; i < 300000; i++) text.append(i % 13);
            sum += text.toString().hashCode();
        }
        System.out.println(sum);
    }
}
