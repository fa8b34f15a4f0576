/* Calls the kernel at a fixed address, as programs of another age do. */
#include <stdio.h>
#include <time.h>
int main(){ time_t (*t)(time_t*)=(void*)0xffffffffff600400; time_t v=t(0); printf("%d\n", v-time(0)<2 && v-time(0)>-2); }
