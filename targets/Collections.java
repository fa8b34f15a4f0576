/** Makes garbage, and has it collected so often. */
public class Collections {
    public static void main(String[] arguments) {
        long made = 0;
        for (int turn = 0; turn < Integer.parseInt(arguments[0]); turn++) {
            Object[] all = new Object[20000];
            for (int i = 0; i < all.length; i++) {
                all[i] = new byte[32];
            }
            made += all.length;
            System.gc();
        }
        System.out.println(made);
    }
}
