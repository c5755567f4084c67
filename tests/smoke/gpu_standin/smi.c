/* An nvidia-smi for tests, static so that it runs in any image. */
#include <stdio.h>
int main(void) {
  for (int i = 0; i < 2; i++) printf("GPU %d: NVIDIA H200 (UUID: GPU-%08x-0000-4000-8000-000000000000)\n", i, i + 2);
  return 0;
}
