// std::condition_variable::wait for builds that run where libstdc++ is older than GCC 12's, which
// gave it a new version for what it does when a thread is cancelled. tenon_older_wait of
// tools/cmake/TenonDependencies.cmake has the linker call this instead; other builds do without.
#include <pthread.h>

#include <condition_variable>
#include <mutex>

extern "C" void
tenon_older_wait(std::condition_variable* self, std::unique_lock<std::mutex>* lock) __asm__(
    "__wrap__ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE");

extern "C" void tenon_older_wait(std::condition_variable* self,
                                 std::unique_lock<std::mutex>* lock) {
  pthread_cond_wait(self->native_handle(), lock->mutex()->native_handle());
}
