// An allocator with C++ operators of its own, which do not come to its malloc; with BY_NAME they do.
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

alignas(4096) static char memory[64 << 20];
static size_t used;

static void *give(size_t bytes, size_t alignment) {
    if (bytes > sizeof memory) return nullptr;
    size_t room = (bytes + alignment + 31) / 16 * 16;
    size_t end = __atomic_add_fetch(&used, room, __ATOMIC_RELAXED);
    if (end > sizeof memory) return nullptr;
    uintptr_t block = (reinterpret_cast<uintptr_t>(memory) + end - room + 16 + alignment - 1) / alignment * alignment;
    reinterpret_cast<size_t *>(block)[-1] = bytes;
    return reinterpret_cast<void *>(block);
}

extern "C" void *malloc(size_t bytes) { return give(bytes, 16); }
extern "C" void *aligned_alloc(size_t alignment, size_t bytes) { return give(bytes, alignment); }
extern "C" void *memalign(size_t alignment, size_t bytes) { return give(bytes, alignment); }
extern "C" int posix_memalign(void **place, size_t alignment, size_t bytes) { return (*place = give(bytes, alignment)) ? 0 : ENOMEM; }
extern "C" void *calloc(size_t count, size_t bytes) { return give(count * bytes, 16); }
extern "C" void free(void *) {}
extern "C" void *realloc(void *old, size_t bytes) {
    void *block = give(bytes, 16);
    size_t had = old ? static_cast<size_t *>(old)[-1] : 0;
    return block && had ? memcpy(block, old, had < bytes ? had : bytes) : block;
}

#ifdef BY_NAME
#define GIVE(bytes) malloc(bytes)
#define TAKE(block) free(block)
#else
#define GIVE(bytes) give(bytes, 16)
#define TAKE(block) (void)block
#endif

static void *must(void *block) {
    if (!block) throw std::bad_alloc();
    return block;
}
void *operator new(size_t bytes) { return must(GIVE(bytes)); }
void *operator new[](size_t bytes) { return must(GIVE(bytes)); }
void *operator new(size_t bytes, const std::nothrow_t &) noexcept { return GIVE(bytes); }
void *operator new[](size_t bytes, const std::nothrow_t &) noexcept { return GIVE(bytes); }
void operator delete(void *block) noexcept { TAKE(block); }
void operator delete[](void *block) noexcept { TAKE(block); }
void operator delete(void *block, size_t) noexcept { TAKE(block); }
void operator delete[](void *block, size_t) noexcept { TAKE(block); }
#ifdef ALIGNED // Else the C++ library's, which comes to aligned_alloc.
void *operator new[](size_t bytes, std::align_val_t alignment) { return must(give(bytes, static_cast<size_t>(alignment))); }
void operator delete[](void *, std::align_val_t) noexcept {}
void operator delete[](void *, size_t, std::align_val_t) noexcept {}
#endif
