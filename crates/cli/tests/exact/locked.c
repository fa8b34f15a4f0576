/* Locks all its memory, present and future. */
#include <sys/mman.h>
#include <stdio.h>
#include <string.h>
int main(){ printf("%d\n",mlockall(MCL_CURRENT|MCL_FUTURE)); static char x[1<<20]; memset(x,1,sizeof x); char*p=mmap(0,1<<20,3,0x22,-1,0); p[5]=1; printf("%d\n",munlockall()); }
