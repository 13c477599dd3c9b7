import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;

/** Java's own client as it comes: with its first request, and each one after it, it offers HTTP/2 by an upgrade. */
class JavaHttpClient {
  static final HttpClient client = HttpClient.newHttpClient();

  public static void main(String[] args) throws Exception {
    report(client.send(request("/inventory").build(), BodyHandlers.ofString()));
    for (int quantity = 1; quantity < 100; quantity++) {
      client.send(request("/inventory").build(), BodyHandlers.ofString());
      update("1", quantity);
    }
    report(update("1", 13, "If-Match", "\"available-99\"", "Idempotency-Key", "java-1"));
    report(update("1", 13, "If-Match", "\"available-99\"", "Idempotency-Key", "java-1"));
    report(update("1", 13, "If-Match", "\"available-99\""));
    report(update("404", 13));
  }

  static HttpResponse<String> update(String petId, int quantity, String... headers) throws Exception {
    HttpRequest.Builder request = request("/inventory/" + petId).header("Content-Type", "application/json");
    if (headers.length > 0) request.headers(headers);
    String body = "{\"quantity\":" + quantity + "}";
    return client.send(request.method("PATCH", BodyPublishers.ofString(body)).build(), BodyHandlers.ofString());
  }

  static HttpRequest.Builder request(String path) {
    return HttpRequest.newBuilder(URI.create(System.getenv("INVENTORY_URL") + path))
        .header("Authorization", "Bearer " + System.getenv("INVENTORY_KEY"));
  }

  static void report(HttpResponse<String> response) {
    String replayed = response.headers().firstValue("Idempotent-Replayed").orElse("-");
    System.out.println(response.version() + " " + response.statusCode() + " " + replayed + " " + response.body());
  }
}
