#include "runtime/drivers/webgpu/survive.h"

#if defined(__unix__) || defined(__APPLE__)

#include <csetjmp>
#include <csignal>
#include <mutex>

namespace xyntra::webgpu {
namespace {

thread_local sigjmp_buf* way_out = nullptr;
std::mutex handler_mutex;
int calls = 0;  // under way, by all threads
struct sigaction before = {};  // whoever else cares for aborts

// Another thread's abort is none of ours: it goes to whom it would have gone to.
void on_abort(int signal, siginfo_t* info, void* context) {
  if (way_out != nullptr) siglongjmp(*way_out, 1);
  if ((before.sa_flags & SA_SIGINFO) != 0) {
    before.sa_sigaction(signal, info, context);
  } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(signal);
  }
}

void begin_call() {
  const std::lock_guard lock(handler_mutex);
  if (calls++ > 0) return;
  struct sigaction ours = {};
  ours.sa_sigaction = on_abort;
  ours.sa_flags = SA_SIGINFO;
  sigemptyset(&ours.sa_mask);
  ::sigaction(SIGABRT, &ours, &before);
}

void end_call() {
  const std::lock_guard lock(handler_mutex);
  if (--calls == 0) ::sigaction(SIGABRT, &before, nullptr);
}

}  // namespace

bool survives(const std::function<void()>& call) {
  begin_call();
  sigjmp_buf here;
  way_out = &here;
  const bool first = sigsetjmp(here, 1) == 0;
  if (first) call();
  way_out = nullptr;
  end_call();
  return first;
}

}  // namespace xyntra::webgpu

#else

namespace xyntra::webgpu {

bool survives(const std::function<void()>& call) {
  call();
  return true;
}

}  // namespace xyntra::webgpu

#endif
