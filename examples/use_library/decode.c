/* An in-place KV cache that grows by a row a step: its memory is donated to the model, with capacity for rows to come. */
#include <stdio.h>
#include <xyntra/xyntra.h>

#define HEADS 2
#define CAPACITY 4
#define WIDTH 4

static int fail(void) {
  fprintf(stderr, "%s\n", xyntra_last_message());
  return 1;
}

int main(int argc, char** argv) {
  const char* donated[] = {"*"};
  xyntra_options options = {.size = sizeof options, .donated = donated, .donated_count = 1};
  xyntra_model* model = NULL;
  if (xyntra_load(argc > 1 ? argv[1] : "cache.xir", &options, &model) != XYNTRA_OK) return fail();

  static float cache[HEADS * CAPACITY * WIDTH];
  float token[HEADS * WIDTH];
  int64_t token_dims[] = {1, HEADS, 1, WIDTH}, cache_dims[] = {1, HEADS, CAPACITY, WIDTH};
  xyntra_tensor given = {sizeof given, "token", XYNTRA_F32, 4, token_dims, token, sizeof token};
  xyntra_tensor memory = {sizeof memory, "past", XYNTRA_F32, 4, cache_dims, cache, sizeof cache};
  xyntra_donation past = {.size = sizeof past, .memory = &memory, .length = 0};
  for (int step = 0; step < CAPACITY; ++step) {
    for (int i = 0; i < HEADS * WIDTH; ++i) token[i] = (float)(step + 1);
    xyntra_result* result = NULL;
    if (xyntra_run_donating(model, &given, 1, &past, 1, &result) != XYNTRA_OK) return fail();
    printf("%d rows, %s, last %g\n", (int)past.length, past.in_place ? "in place" : "copied",
           cache[step * WIDTH]);
    xyntra_release_result(result);
  }
  xyntra_counts counts = XYNTRA_INIT(xyntra_counts);
  if (xyntra_count(model, &counts) != XYNTRA_OK) return fail();
  printf("%d copies\n", (int)counts.copies);
  xyntra_release(model);
  return 0;
}
