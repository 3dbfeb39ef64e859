// Work for the Java virtual machine: maps, strings, streams and sorting; always the same. Started from its
// source, so that the compiler, a large Java program, is a part of it.
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.stream.Collectors;

public final class Work {
    record Entry(String name, int group, double value) {}

    static List<Entry> entries(Random random, int count) {
        List<Entry> made = new ArrayList<>(count);
        for (int i = 0; i < count; i++) {
            int number = random.nextInt(50_000);
            made.add(new Entry("name-" + number, number % 997, random.nextDouble()));
        }
        return made;
    }

    static long round(int seed, int count) {
        List<Entry> all = entries(new Random(seed), count);
        Map<Integer, Double> sums = new HashMap<>();
        for (Entry entry : all) sums.merge(entry.group(), entry.value(), Double::sum);
        TreeMap<String, Integer> names = new TreeMap<>();
        for (Entry entry : all) names.merge(entry.name(), 1, Integer::sum);
        List<Entry> sorted =
            all.stream()
                .sorted(Comparator.comparing(Entry::name).thenComparingDouble(Entry::value))
                .collect(Collectors.toList());
        String joined = sorted.stream().limit(2000).map(Entry::toString).collect(Collectors.joining(","));
        return joined.hashCode() + names.size() + (long) sums.values().stream().mapToDouble(v -> v).sum();
    }

    public static void main(String[] arguments) {
        int rounds = arguments.length > 0 ? Integer.parseInt(arguments[0]) : 6;
        long sum = 0;
        for (int seed = 0; seed < rounds; seed++) sum += round(seed, 120_000);
        System.out.println(sum);
    }
}
