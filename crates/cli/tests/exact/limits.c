/* Limits its own address space: what fits still fits, what does not fails, children inherit it. */
#include <sys/resource.h>
#include <sys/mman.h>
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
int main(){ struct rlimit r; getrlimit(RLIMIT_AS,&r); printf("%lx %lx\n",(long)r.rlim_cur,(long)r.rlim_max);
 r.rlim_cur=1ul<<30; if(setrlimit(RLIMIT_AS,&r)) perror("set"); getrlimit(RLIMIT_AS,&r); printf("%lx %lx\n",(long)r.rlim_cur,(long)r.rlim_max);
 char*p=malloc(100<<20); printf("%d\n",p!=0); if(p) memset(p,1,100<<20); void*q=mmap(0,2ul<<30,3,0x22,-1,0); printf("%d\n",q==MAP_FAILED); fflush(stdout); return system("ulimit -v"); }
