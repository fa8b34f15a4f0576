/* 1,400 threads, 400 of them at once. */
#include <pthread.h>
#include <stdio.h>
static void*f(void*p){ volatile long x[64]; for(int i=0;i<64;i++) x[i]=i+(long)p; return (void*)x[5]; }
int main(){ long s=0; for(int r=0;r<20;r++){ pthread_t t[50]; for(long i=0;i<50;i++) pthread_create(&t[i],0,f,(void*)i); for(int i=0;i<50;i++){ void*v; pthread_join(t[i],&v); s+=(long)v; } }
 static pthread_t q[400]; pthread_attr_t a; pthread_attr_init(&a); pthread_attr_setstacksize(&a,65536); for(long i=0;i<400;i++) if(pthread_create(&q[i],&a,f,(void*)i)) printf("fail %ld\n",i); for(int i=0;i<400;i++){void*v; pthread_join(q[i],&v); s+=(long)v;}
 printf("%ld\n",s); }
