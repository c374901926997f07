#include "core/isolation/guest/sandbox.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <vector>

namespace tenon {
namespace {

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
constexpr uint32_t kArchitecture = 0;
#endif
constexpr uint32_t kOtherCalls = 0x40000000;  // from here on: those of x32

struct Refused {
  uint32_t number;
  std::string_view name;
};
#define TENON_REFUSED(name) \
  Refused {                 \
    SYS_##name, #name       \
  }

// Whatever the arguments are.
constexpr Refused kRefused[] = {
    TENON_REFUSED(socket),
    TENON_REFUSED(socketpair),
    TENON_REFUSED(connect),
    TENON_REFUSED(bind),
    TENON_REFUSED(listen),
    TENON_REFUSED(accept),
    TENON_REFUSED(accept4),
    TENON_REFUSED(sendto),
    TENON_REFUSED(sendmsg),
    TENON_REFUSED(sendmmsg),
    TENON_REFUSED(recvfrom),
    TENON_REFUSED(recvmsg),
    TENON_REFUSED(recvmmsg),
    TENON_REFUSED(execve),
    TENON_REFUSED(execveat),
    TENON_REFUSED(ptrace),
    TENON_REFUSED(process_vm_readv),
    TENON_REFUSED(process_vm_writev),
    TENON_REFUSED(process_madvise),
    TENON_REFUSED(kcmp),
    TENON_REFUSED(pidfd_open),
    TENON_REFUSED(pidfd_getfd),
    TENON_REFUSED(pidfd_send_signal),
    TENON_REFUSED(tkill),
    TENON_REFUSED(rt_sigqueueinfo),
    TENON_REFUSED(rt_tgsigqueueinfo),
    TENON_REFUSED(setpriority),
    TENON_REFUSED(sched_setscheduler),
    TENON_REFUSED(sched_setparam),
    TENON_REFUSED(sched_setattr),
    TENON_REFUSED(setpgid),
    TENON_REFUSED(setsid),
    TENON_REFUSED(openat2),
    TENON_REFUSED(open_by_handle_at),
    TENON_REFUSED(truncate),
    TENON_REFUSED(mkdirat),
    TENON_REFUSED(mknodat),
    TENON_REFUSED(unlinkat),
    TENON_REFUSED(renameat2),
    TENON_REFUSED(linkat),
    TENON_REFUSED(symlinkat),
    TENON_REFUSED(fchmod),
    TENON_REFUSED(fchmodat),
    TENON_REFUSED(fchown),
    TENON_REFUSED(fchownat),
    TENON_REFUSED(utimensat),
    TENON_REFUSED(setxattr),
    TENON_REFUSED(lsetxattr),
    TENON_REFUSED(fsetxattr),
    TENON_REFUSED(removexattr),
    TENON_REFUSED(lremovexattr),
    TENON_REFUSED(fremovexattr),
    TENON_REFUSED(mount),
    TENON_REFUSED(umount2),
    TENON_REFUSED(pivot_root),
    TENON_REFUSED(chroot),
    TENON_REFUSED(move_mount),
    TENON_REFUSED(open_tree),
    TENON_REFUSED(fsopen),
    TENON_REFUSED(unshare),
    TENON_REFUSED(setns),
    TENON_REFUSED(shmget),
    TENON_REFUSED(shmat),
    TENON_REFUSED(msgget),
    TENON_REFUSED(semget),
    TENON_REFUSED(mq_open),
    TENON_REFUSED(setrlimit),
    TENON_REFUSED(io_setup),
    TENON_REFUSED(io_uring_setup),
    TENON_REFUSED(bpf),
    TENON_REFUSED(perf_event_open),
    TENON_REFUSED(userfaultfd),
    TENON_REFUSED(fanotify_init),
    TENON_REFUSED(add_key),
    TENON_REFUSED(request_key),
    TENON_REFUSED(keyctl),
    TENON_REFUSED(init_module),
    TENON_REFUSED(finit_module),
    TENON_REFUSED(delete_module),
    TENON_REFUSED(kexec_load),
    TENON_REFUSED(reboot),
    TENON_REFUSED(swapon),
    TENON_REFUSED(swapoff),
    TENON_REFUSED(acct),
    TENON_REFUSED(quotactl),
    TENON_REFUSED(sethostname),
    TENON_REFUSED(setdomainname),
    TENON_REFUSED(settimeofday),
    TENON_REFUSED(clock_settime),
    TENON_REFUSED(clock_adjtime),
    TENON_REFUSED(adjtimex),
    TENON_REFUSED(syslog),
    TENON_REFUSED(personality),
    TENON_REFUSED(setuid),
    TENON_REFUSED(setgid),
    TENON_REFUSED(setreuid),
    TENON_REFUSED(setregid),
    TENON_REFUSED(setresuid),
    TENON_REFUSED(setresgid),
    TENON_REFUSED(setgroups),
    TENON_REFUSED(setfsuid),
    TENON_REFUSED(setfsgid),
    TENON_REFUSED(capset),
#if defined(__x86_64__)
    TENON_REFUSED(creat),
    TENON_REFUSED(mkdir),
    TENON_REFUSED(rmdir),
    TENON_REFUSED(mknod),
    TENON_REFUSED(unlink),
    TENON_REFUSED(rename),
    TENON_REFUSED(link),
    TENON_REFUSED(symlink),
    TENON_REFUSED(chmod),
    TENON_REFUSED(chown),
    TENON_REFUSED(lchown),
    TENON_REFUSED(utime),
    TENON_REFUSED(utimes),
    TENON_REFUSED(futimesat),
    TENON_REFUSED(iopl),
    TENON_REFUSED(ioperm),
    TENON_REFUSED(modify_ldt),
    TENON_REFUSED(uselib),
#endif
#if defined(SYS_renameat)
    TENON_REFUSED(renameat),
#endif
};

// Refused for some arguments.
constexpr Refused kSometimesRefused[] = {
    TENON_REFUSED(openat),    TENON_REFUSED(kill),  TENON_REFUSED(tgkill),
    TENON_REFUSED(prlimit64), TENON_REFUSED(ioctl),
#if defined(__x86_64__)
    TENON_REFUSED(open),
#endif
};
#undef TENON_REFUSED

constexpr uint32_t kWrites = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | O_APPEND;
// O_TMPFILE has the bits of O_DIRECTORY, and writes.

class Filter {
 public:
  Filter() {
    load(offsetof(seccomp_data, arch));
    add(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0));
    end(SECCOMP_RET_KILL_PROCESS);
    load(offsetof(seccomp_data, nr));
    add(BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, kOtherCalls, 0, 1));
    end(SECCOMP_RET_KILL_PROCESS);
    // glibc then starts threads by `clone`, whose flags can be seen.
    on(SYS_clone3, {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS)});
    for (const Refused& one : kRefused) on(one.number, {trap()});
    const auto own = static_cast<uint32_t>(::getpid());
    on(SYS_openat, if_any_bit(2, kWrites));
#if defined(__x86_64__)
    on(SYS_open, if_any_bit(1, kWrites));
#endif
    // Not noted: the C library has all signals blocked where it starts programs.
    on(SYS_clone, {argument(0, false), BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 1, 0),
                   not_permitted(), allow()});
#if defined(__x86_64__)
    on(SYS_fork, {not_permitted()});
    on(SYS_vfork, {not_permitted()});
#endif
    on(SYS_kill, unless_equal(0, own));
    on(SYS_tgkill, unless_equal(0, own));
    on(SYS_ioctl, if_equal(1, TIOCSTI));
    // A pointer: both halves of it.
    on(SYS_prlimit64,
       {argument(2, false), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 2), argument(2, true),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0), trap(), allow()});
    add(allow());
  }

  bool install() {
    const sock_fprog program{static_cast<unsigned short>(code_.size()), code_.data()};
    return ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) ==
           0;
  }

 private:
  using Code = std::vector<sock_filter>;

  static sock_filter trap() {
    return BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP);
  }
  static sock_filter not_permitted() {
    return BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
  }
  static sock_filter allow() {
    return BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  }
  // The lower half of an argument, where the rest does not count. Little-endian.
  static sock_filter argument(uint32_t index, bool high) {
    const auto at =
        static_cast<uint32_t>(offsetof(seccomp_data, args) + index * 8 + (high ? 4 : 0));
    return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at);
  }
  static Code if_any_bit(uint32_t index, uint32_t bits) {
    return {argument(index, false), BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1), trap(),
            allow()};
  }
  static Code if_equal(uint32_t index, uint32_t value) {
    return {argument(index, false), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1), trap(),
            allow()};
  }
  static Code unless_equal(uint32_t index, uint32_t value) {
    return {argument(index, false), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 1, 0), trap(),
            allow()};
  }

  void add(const sock_filter& one) {
    code_.push_back(one);
  }
  void load(size_t at) {
    add(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(at)));
  }
  void end(uint32_t action) {
    add(BPF_STMT(BPF_RET | BPF_K, action));
  }
  void on(uint32_t number, const Code& then) {
    add(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, static_cast<uint8_t>(then.size())));
    code_.insert(code_.end(), then.begin(), then.end());
  }

  Code code_;
};

std::atomic<uint32_t>* refused_call = nullptr;

// A refused call: noted, and answered as one that is not permitted.
void refuse(int, siginfo_t* info, void* context) {
  uint32_t none = 0;
  refused_call->compare_exchange_strong(none, 1 + static_cast<uint32_t>(info->si_syscall));
  auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  registers.gregs[REG_RAX] = -EPERM;
#elif defined(__aarch64__)
  registers.regs[0] = static_cast<uint64_t>(-EPERM);
#endif
}

}  // namespace

void leave_others_alone() {
  // A process of a Landlock domain cannot trace one outside of it, nor read its memory by /proc.
  const landlock_ruleset_attr rules{LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |
                                    LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG |
                                    LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_SYM};
  const long made = ::syscall(SYS_landlock_create_ruleset, &rules, sizeof(rules), 0);
  if (made < 0) return;  // an older kernel, or one without it
  ::syscall(SYS_landlock_restrict_self, made, 0);
  ::close(static_cast<int>(made));
}

bool refuse_system_calls(std::atomic<uint32_t>& refused) {
  if (kArchitecture == 0) return false;
  refused_call = &refused;
  struct sigaction action {};
  action.sa_sigaction = refuse;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  ::sigaction(SIGSYS, &action, nullptr);
  return Filter().install();
}

std::string_view name_of_refused(uint32_t refused) {
  for (const Refused& one : kRefused) {
    if (refused == one.number + 1) return one.name;
  }
  for (const Refused& one : kSometimesRefused) {
    if (refused == one.number + 1) return one.name;
  }
  return "a system call";
}

}  // namespace tenon
