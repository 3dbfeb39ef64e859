import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadLocalRandom;

/**
 * A web server with a cache of objects: {@code java -cp DIR Server PORT [ENTRIES]}, compiled by {@code javac -d DIR}.
 *
 * <p>Each GET looks up 64 of the ENTRIES (1000000, some 200 MiB) by chance and answers with JSON. It prints "ready"
 * when it listens, ends on SIGTERM or SIGINT with status 0, and after 15 minutes by itself.
 */
public final class Server {
    private static final int LOOKUPS = 64;

    private record Item(int id, String name, int price, int[] tags) {}

    private final Map<Integer, Item> cache = new HashMap<>();
    private final int entries;

    private Server(int entries) {
        this.entries = entries;
        for (int i = 0; i < entries; i++) {
            int[] tags = {i % 7, i % 11, i % 13};
            cache.put(i, new Item(i, "name of item " + i, i * 37 % 1000, tags));
        }
    }

    private byte[] answer() {
        ThreadLocalRandom random = ThreadLocalRandom.current();
        long sum = 0;
        Item last = null;
        for (int i = 0; i < LOOKUPS; i++) {
            last = cache.get(random.nextInt(entries));
            sum += last.price() + last.tags()[1];
        }
        String body = "{\"sum\":" + sum + ",\"last\":{\"id\":" + last.id() + ",\"name\":\"" + last.name() + "\"}}";
        return body.getBytes(StandardCharsets.UTF_8);
    }

    public static void main(String[] words) throws IOException, InterruptedException {
        // Else head and body are two segments, and the second waits for a delayed acknowledgement.
        System.setProperty("sun.net.httpserver.nodelay", "true");
        Server server = new Server(words.length > 1 ? Integer.parseInt(words[1]) : 1_000_000);
        InetSocketAddress address =
                new InetSocketAddress(InetAddress.getLoopbackAddress(), Integer.parseInt(words[0]));
        HttpServer http = HttpServer.create(address, 128);
        http.setExecutor(Executors.newFixedThreadPool(4, work -> {
            Thread thread = new Thread(work);
            thread.setDaemon(true);
            return thread;
        }));
        http.createContext("/", exchange -> {
            byte[] body = server.answer();
            exchange.getResponseHeaders().add("Content-Type", "application/json");
            exchange.sendResponseHeaders(200, body.length);
            exchange.getResponseBody().write(body);
            exchange.close();
        });
        // A signal's status would be 143.
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            http.stop(0);
            Runtime.getRuntime().halt(0);
        }));
        http.start();
        System.out.println("ready");
        Thread.sleep(15 * 60 * 1000L);
        System.exit(0);
    }
}
