#include "socket_pair.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "base/clock.h"

namespace r2cc::fake {
namespace {
constexpr int64_t kWaitNs = msToNs(20000);
constexpr char kNotAllowed[] = "!";

bool put(const char* path, const std::string& text) {
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  const bool ok = fd >= 0 && write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (fd >= 0) close(fd);
  return ok;
}

/// With root, or as a plain user by way of a user namespace in which we are root.
bool enterNamespace() {
  if (unshare(CLONE_NEWNET) == 0) return true;
  const std::string user = "0 " + std::to_string(getuid()) + " 1";
  const std::string group = "0 " + std::to_string(getgid()) + " 1";
  if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return false;
  return put("/proc/self/setgroups", "deny") && put("/proc/self/uid_map", user) && put("/proc/self/gid_map", group);
}

}  // namespace

InnerNet socketNet() {
  static const bool ready = [] {
    setenv("NCCL_SOCKET_IFNAME", "=lo", 1);
    void* ctx = nullptr;
    return ncclNetSocket.init(&ctx, 0, nullptr, nullptr, nullptr) == ncclSuccess;
  }();
  return {ready ? &ncclNetSocket : nullptr, &r2ccNetSocketOps};
}

bool spin(int64_t limitNs, const std::function<bool()>& what) {
  const int64_t end = nowNs() + limitNs;
  while (!what()) {
    if (nowNs() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

CommPair::CommPair(const InnerNet& net, void* sendCtx, int from, void* recvCtx, int to) : net(net) {
  InnerHandle handle{};
  void* listener = nullptr;
  if (net.net->listen(recvCtx, to, handle.data(), &listener) != ncclSuccess) return;
  (void)spin(kWaitNs, [&] {
    if (sender == nullptr && net.net->connect(sendCtx, from, handle.data(), &sender, nullptr) != ncclSuccess) {
      return true;
    }
    if (receiver == nullptr && net.net->accept(listener, &receiver, nullptr) != ncclSuccess) return true;
    return connected();
  });
  if (sender == nullptr) net.ops->cancelConnect(handle.data());
  net.ops->cancelListen(listener);
}

CommPair::~CommPair() {
  for (void* comm : {sender, receiver}) {
    if (comm == nullptr) continue;
    net.ops->fence(comm);
    (void)(comm == sender ? net.net->closeSend(comm) : net.net->closeRecv(comm));
  }
}

bool CommPair::pass(void* from, void* to, size_t size, void* sendMr, void* recvMr) {
  void* requests[2] = {};
  int tag = 0;
  bool broken = false;
  int done[2] = {};
  return spin(kWaitNs,
              [&] {
                ncclResult_t result = ncclSuccess;
                if (requests[0] == nullptr)
                  result = net.net->irecv(receiver, 1, &to, &size, &tag, &recvMr, nullptr, &requests[0]);
                broken |= result != ncclSuccess;
                if (requests[1] == nullptr)
                  result = net.net->isend(sender, from, size, tag, sendMr, nullptr, &requests[1]);
                broken |= result != ncclSuccess;
                for (int i = 0; i < 2; i++) {
                  if (requests[i] != nullptr && !done[i])
                    broken |= net.net->test(requests[i], &done[i], nullptr) != ncclSuccess;
                }
                return broken || (done[0] && done[1]);
              }) &&
         !broken;
}

std::string inOwnNamespace(const std::function<std::string()>& body, std::string& why) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    // NOLINTNEXTLINE(bugprone-command-processor): a command of our own making
    const std::string said = !enterNamespace() || system("ip link set lo up") != 0 ? kNotAllowed : body();
    const bool written = write(ends[1], said.data(), said.size()) == static_cast<ssize_t>(said.size());
    _exit(written ? 0 : 1);
  }
  close(ends[1]);
  std::string said;
  char buffer[4096];
  for (ssize_t got = 0; (got = read(ends[0], buffer, sizeof(buffer))) > 0;)
    said.append(buffer, static_cast<size_t>(got));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (said == kNotAllowed) why = "no network namespace of its own, or no ip command, on this machine";
  if (said == kNotAllowed) return "";
  return status == 0 ? said : said + " (exit status " + std::to_string(status) + ")";
}

}  // namespace r2cc::fake
