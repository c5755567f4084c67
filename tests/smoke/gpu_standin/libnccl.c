/* A libnccl for tests, over the libcuda beside it. NCCL_STANDIN: wrong, hang, init, gbps=N (bus bandwidth it pretends). */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define RANKS 16
static struct { const void *from; void *to; size_t count; int kind; } work[RANKS];
static int ranks, live;

static const char *standin(void) { const char *text = getenv("NCCL_STANDIN"); return text ? text : ""; }

int ncclGetVersion(int *version) { *version = 22809; return 0; }
const char *ncclGetErrorString(int code) { return code == 2 ? "unhandled system error" : "no error"; }
const char *ncclGetLastError(void *communicator) { return "Call to ibv_modify_qp failed"; }
int ncclCommInitAll(void **communicators, int count, const int *devices) {
  if (strstr(standin(), "init")) return 2;
  ranks = count;
  for (int i = 0; i < count; i++) { communicators[i] = (void *)(uintptr_t)(i + 1); live++; }
  const char *file = getenv("NCCL_DEBUG_FILE");
  FILE *log = file ? fopen(file, "a") : NULL;
  if (log) {
    const char *how = getenv("NCCL_P2P_DISABLE") ? "SHM/direct/direct" : "P2P/direct pointer";
    for (int i = 0; i < count && count > 1; i++)
      fprintf(log, "host:1:1 [%d] NCCL INFO Channel 00/0 : %d[%d] -> %d[%d] via %s\n", i, i, i, (i + 1) % count, (i + 1) % count, how);
    fclose(log);
  }
  return 0;
}
int ncclCommDestroy(void *communicator) { live--; return 0; }
int ncclGroupStart(void) { memset(work, 0, sizeof work); return 0; }
int ncclAllReduce(const void *from, void *to, size_t count, int kind, int op, void *communicator, void *stream) {
  int rank = (int)(uintptr_t)communicator - 1;
  work[rank].from = from; work[rank].to = to; work[rank].count = count; work[rank].kind = kind;
  return op;
}
int ncclGroupEnd(void) {
  const char *speed = strstr(standin(), "gbps=");
  size_t count = work[0].count;
  if (strstr(standin(), "hang")) sleep(600);
  for (size_t i = 0; i < count; i++) {
    if (work[0].kind == 7) {
      float sum = 0;
      for (int r = 0; r < ranks; r++) sum += ((const float *)work[r].from)[i];
      for (int r = 0; r < ranks; r++) ((float *)work[r].to)[i] = sum;
    } else {
      int sum = 0;
      for (int r = 0; r < ranks; r++) sum += ((const int *)work[r].from)[i];
      for (int r = 0; r < ranks; r++) ((int *)work[r].to)[i] = sum;
    }
  }
  if (strstr(standin(), "wrong")) ((int *)work[ranks - 1].to)[count / 2] ^= 1;
  if (speed) {
    double seconds = count * 4.0 * 2 * (ranks - 1) / ranks / (strtod(speed + 5, NULL) * 1e9);
    struct timespec rest = {(time_t)seconds, (long)((seconds - (time_t)seconds) * 1e9)};
    nanosleep(&rest, NULL);
  }
  return 0;
}
