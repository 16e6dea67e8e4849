// TLS over sockets, and short texts, apart from the net: what gets through, what does not, and what an eavesdropper
// sees.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "base/clock.h"
#include "base/fd.h"
#include "check.h"
#include "rig/socket_pair.h"
#include "scratch.h"
#include "tls/crypto.h"
#include "tls/openssl_values.h"
#include "tls/tls_socket.h"

using namespace r2cc;
using namespace r2cc::fake;

namespace {

constexpr int64_t kLimitNs = msToNs(20000);
constexpr TlsKey kKey{1, 2, 3}, kOther{1, 2, 4};
using Shaken = TlsSocket::Handshake;

struct Wire {
  Fd left, right;
};

Wire newWire() {
  int ends[2] = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0)
    throw std::runtime_error("no socket");
  return {Fd(ends[0]), Fd(ends[1])};
}

/// Two wires and somebody between them, who reads all, and may change it.
struct Tapped {
  Wire near = newWire(), far = newWire();
  std::vector<uint8_t> heard;  // from near to far
  size_t flipAt = SIZE_MAX;    // which bit of that is changed on its way

  void carry() {
    move(near.right.get(), far.left.get(), true);
    move(far.left.get(), near.right.get(), false);
  }

 private:
  void move(int from, int to, bool listens) {
    std::vector<uint8_t> bytes(1 << 16);
    const ssize_t got = recv(from, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got <= 0) return;
    bytes.resize(static_cast<size_t>(got));
    if (listens) {
      const size_t before = heard.size();
      heard.insert(heard.end(), bytes.begin(), bytes.end());
      if (flipAt / 8 >= before && flipAt / 8 < heard.size()) bytes[flipAt / 8 - before] ^= 1;
    }
    CHECK_EQ(::send(to, bytes.data(), bytes.size(), MSG_NOSIGNAL), got);
  }
};

struct Pair {
  Pair(int from, int to, const TlsKey& senders, const TlsKey& receivers, uint64_t bytesAKey = TlsSocket::kBytesAKey)
      : sender(from, senders, true, bytesAKey), receiver(to, receivers, false, bytesAKey) {}
  TlsSocket sender, receiver;
  Shaken sent = Shaken::Working, received = Shaken::Working;

  bool shake(const std::function<void()>& meanwhile = [] {}) {
    return spin(kLimitNs, [&] {
      if (sent == Shaken::Working) sent = sender.handshake();
      meanwhile();
      if (received == Shaken::Working) received = receiver.handshake();
      meanwhile();
      return sent != Shaken::Working && received != Shaken::Working;
    });
  }
  bool works() const { return sent == Shaken::Done && received == Shaken::Done; }
  /// False when one end fails, or it takes too long.
  bool pass(
      const std::vector<uint8_t>& message, std::vector<uint8_t>& into, const std::function<void()>& meanwhile = [] {}) {
    into.assign(message.size(), 0);
    size_t out = 0, in = 0;
    bool broken = false;
    const bool ended = spin(kLimitNs, [&] {
      const ssize_t gone = out < message.size() ? sender.send(message.data() + out, message.size() - out) : 0;
      meanwhile();
      const ssize_t came = receiver.recv(into.data() + in, into.size() - in);
      broken |= gone < 0 || came < 0;
      out += static_cast<size_t>(std::max<ssize_t>(gone, 0));
      in += static_cast<size_t>(std::max<ssize_t>(came, 0));
      return broken || in == message.size();
    });
    return ended && !broken;
  }
};

std::vector<uint8_t> numbered(size_t size) {
  std::vector<uint8_t> out(size);
  std::iota(out.begin(), out.end(), uint8_t{3});
  return out;
}

/// A TLS server with a certificate, and no key of ours: made by OpenSSL's own program, which not every machine has.
class Impostor {
 public:
  Impostor(const std::string& folder, int fd) : library_(dlopen("libssl.so.3", RTLD_NOW | RTLD_LOCAL)) {
    const std::string certificate = folder + "/certificate", key = folder + "/key";
    const std::string make = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=r2cc -keyout " + key +
                             " -out " + certificate + " >" + folder + "/said 2>&1";
    const OpenSsl& o = OpenSsl::get();
    SslContext* context = o.SSL_CTX_new_ex(o.context, nullptr, o.TLS_server_method());
    const auto take = find<int(SslContext*, const char*, int)>("SSL_CTX_use_certificate_file");
    const auto takeKey = find<int(SslContext*, const char*, int)>("SSL_CTX_use_PrivateKey_file");
    constexpr int kPem = 1;
    made = system(make.c_str()) == 0 && take(context, certificate.c_str(), kPem) == 1 &&  // NOLINT(cert-env33-c)
           takeKey(context, key.c_str(), kPem) == 1;
    ssl_ = o.SSL_new(context);
    find<void(SslContext*)>("SSL_CTX_free")(context);  // the other holds it
    find<int(Ssl*, int)>("SSL_set_fd")(ssl_, fd);
    o.SSL_set_accept_state(ssl_);
  }
  ~Impostor() { OpenSsl::get().SSL_free(ssl_); }
  Impostor(const Impostor&) = delete;
  Impostor& operator=(const Impostor&) = delete;
  void step() { (void)OpenSsl::get().SSL_do_handshake(ssl_); }
  bool made = false;

 private:
  template <class Function>
  Function* find(const char* name) const {
    return reinterpret_cast<Function*>(dlsym(library_, name));
  }
  void* library_;
  Ssl* ssl_ = nullptr;
};

bool holds(const std::vector<uint8_t>& all, const std::string& word) {
  return std::search(all.begin(), all.end(), word.begin(), word.end()) != all.end();
}

}  // namespace

TEST(net_tls_carries_every_byte) {
  const Wire wire = newWire();
  Pair pair(wire.left.get(), wire.right.get(), kKey, kKey);
  CHECK(pair.shake());
  CHECK(pair.works());
  for (const size_t size : {size_t{1}, size_t{4}, size_t{16384}, size_t{65536}, size_t{65537}, size_t{5000000}}) {
    std::vector<uint8_t> into;
    CHECK(pair.pass(numbered(size), into));
    CHECK(into == numbered(size));
  }
}

/// Fresh keys in the middle change nothing for the user.
TEST(net_tls_takes_fresh_keys) {
  const Wire wire = newWire();
  Pair pair(wire.left.get(), wire.right.get(), kKey, kKey, 100000);
  CHECK(pair.shake());
  std::vector<uint8_t> into;
  CHECK(pair.pass(numbered(3000000), into));
  CHECK(into == numbered(3000000));
}

/// What goes over the wire is not what is sent; and whoever listens would have heard it without TLS.
TEST(net_tls_an_eavesdropper_reads_nothing) {
  const std::string word = "gradients of layer 17";
  std::vector<uint8_t> message(word.begin(), word.end()), into;
  Tapped plain;
  CHECK_EQ(::send(plain.near.left.get(), message.data(), message.size(), 0), static_cast<ssize_t>(message.size()));
  plain.carry();
  CHECK(holds(plain.heard, word));
  Tapped tapped;
  Pair pair(tapped.near.left.get(), tapped.far.right.get(), kKey, kKey);
  CHECK(pair.shake([&] { tapped.carry(); }));
  CHECK(pair.pass(message, into, [&] { tapped.carry(); }));
  CHECK(into == message);
  CHECK(tapped.heard.size() > message.size());
  CHECK(!holds(tapped.heard, word));
  CHECK(!holds(tapped.heard, std::string(kKey.begin(), kKey.end())));
}

TEST(net_tls_a_changed_bit_ends_it) {
  size_t changed = 0;
  for (const size_t behind : {size_t{0}, size_t{9}, size_t{40}, size_t{300}}) {  // bits behind the handshake
    Tapped tapped;
    Pair pair(tapped.near.left.get(), tapped.far.right.get(), kKey, kKey);
    CHECK(pair.shake([&] { tapped.carry(); }));
    tapped.flipAt = tapped.heard.size() * 8 + behind;
    std::vector<uint8_t> into;
    const bool passed = pair.pass(numbered(1000), into, [&] { tapped.carry(); });
    CHECK(!passed);
    CHECK(!pair.receiver.problem().empty());
    CHECK_EQ(into.front(), 0);  // nothing of it was handed out
    changed++;
  }
  CHECK_EQ(changed, 4u);
}

TEST(net_tls_another_key_is_refused_by_both) {
  const Wire wire = newWire();
  Pair pair(wire.left.get(), wire.right.get(), kKey, kOther);
  CHECK(pair.shake());
  CHECK(pair.sent == Shaken::Failed);
  CHECK(pair.received == Shaken::Failed);
  CHECK(!pair.sender.problem().empty());
}

/// Who does not know the key and takes the caller's bytes all the same: a man in the middle with a certificate of his
/// own.
TEST(net_tls_a_certificate_is_not_believed) {
  const check::Scratch folder;
  const Wire wire = newWire();
  Impostor impostor(folder.path(), wire.right.get());
  if (!impostor.made) {
    std::fprintf(stderr, "no openssl program: not tried\n");
    return;
  }
  TlsSocket socket(wire.left.get(), kKey, true);
  CHECK(spin(kLimitNs, [&] {
    impostor.step();
    return socket.handshake() == Shaken::Failed;
  }));
  CHECK(socket.problem().find("certificate verify failed") != std::string::npos);
}

TEST(net_tls_noise_and_an_end_are_refused) {
  for (const bool connects : {true, false}) {
    const Wire wire = newWire();
    TlsSocket socket(wire.left.get(), kKey, connects);
    CHECK(socket.handshake() == Shaken::Working);
    const std::vector<uint8_t> noise = numbered(4000);
    CHECK(::send(wire.right.get(), noise.data(), noise.size(), MSG_NOSIGNAL) > 0);
    CHECK(spin(kLimitNs, [&] { return socket.handshake() == Shaken::Failed; }));
    Wire cut = newWire();
    TlsSocket alone(cut.left.get(), kKey, connects);
    CHECK(alone.handshake() == Shaken::Working);  // and so it stays with somebody who says nothing
    CHECK(alone.handshake() == Shaken::Working);
    cut.right.reset();
    CHECK(spin(kLimitNs, [&] { return alone.handshake() == Shaken::Failed; }));
  }
}

TEST(net_tls_without_openssl_says_what_to_do) {
  std::string said;
  try {
    (void)OpenSsl::load("libssl-of-nobody.so.3");
  } catch (const std::runtime_error& problem) {
    said = problem.what();
  }
  CHECK(said.find("R2CC_TLS=1 needs OpenSSL 3") == 0);
  CHECK(said.find("libssl-of-nobody.so.3") != std::string::npos);
  CHECK(said.find("or unset R2CC_TLS") != std::string::npos);
  try {
    (void)OpenSsl::load("libdl.so.2");  // a library that is another
    CHECK(false);
  } catch (const std::runtime_error& problem) {
    CHECK(std::string(problem.what()).find("it has no ") != std::string::npos);
  }
}

TEST(net_tls_short_texts_are_sealed_and_hidden) {
  const Sealer sealer(Sealer::Key{1, 2, 3}), other(Sealer::Key{1, 2, 4});
  const std::vector<uint8_t> text = numbered(100);
  std::vector<uint8_t> sealed = text, plain;
  sealer.seal(7, 20, sealed);
  CHECK_EQ(sealed.size(), text.size() + Sealer::kTagBytes);
  CHECK(std::equal(text.begin(), text.begin() + 20, sealed.begin()));
  CHECK(!std::equal(text.begin() + 20, text.end(), sealed.begin() + 20));
  CHECK(sealer.open(7, 20, sealed.data(), sealed.size(), plain));
  CHECK(plain == std::vector<uint8_t>(text.begin() + 20, text.end()));
  plain.clear();
  CHECK(!sealer.open(8, 20, sealed.data(), sealed.size(), plain));
  CHECK(!sealer.open(7, 19, sealed.data(), sealed.size(), plain));
  CHECK(!other.open(7, 20, sealed.data(), sealed.size(), plain));
  for (size_t bit = 0; bit < sealed.size() * 8; bit++) {
    sealed[bit / 8] ^= static_cast<uint8_t>(1U << (bit % 8));
    CHECK(!sealer.open(7, 20, sealed.data(), sealed.size(), plain));
    sealed[bit / 8] ^= static_cast<uint8_t>(1U << (bit % 8));
  }
  CHECK(plain.empty());
  CHECK(!sealer.open(7, 20, sealed.data(), 35, plain));  // shorter than what is around it
}

/// RFC 4231, test case 2, has a key of four bytes; HMAC fills keys up with zeros, as ours is.
TEST(net_tls_keys_are_made_by_hmac) {
  TlsKey key{'J', 'e', 'f', 'e'};
  const std::string rest = "do ya want for nothing?";
  // The word's end is a byte that the RFC's text does not have: so only that words and texts do not run into each
  // other.
  CHECK(derivedKey(key, "what ", {rest.begin(), rest.end()}) !=
        derivedKey(key, "what d", {rest.begin() + 1, rest.end()}));
  CHECK(derivedKey(key, "a", {}) == derivedKey(key, "a", {}));
  CHECK(derivedKey(key, "a", {}) != derivedKey(kKey, "a", {}));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
namespace {

constexpr int kCode = 7;

/// A program that uses OpenSSL itself, which is then torn down at exit, and leaves while a thread encrypts.
[[noreturn]] void leaveWhileEncrypting(std::chrono::microseconds after) {
  void* library = dlopen("libssl.so.3", RTLD_NOW | RTLD_LOCAL);
  const auto init = reinterpret_cast<int (*)(uint64_t, const void*)>(dlsym(library, "OPENSSL_init_ssl"));
  if (init(0, nullptr) != 1) _exit(1);
  const auto inThread = [](void (*work)()) {
    std::thread([work] {
      try {
        work();
      } catch (const std::runtime_error&) {
        (void)pause();  // OpenSSL was gone before it was asked for
      }
    }).detach();
  };
  inThread([] {
    const Wire wire = newWire();
    Pair pair(wire.left.get(), wire.right.get(), kKey, kKey);
    pair.shake();
    std::vector<uint8_t> into;
    while (pair.pass(numbered(50000), into)) {
    }
    _exit(2);
  });
  inThread([] {
    while (true) {
      const Wire wire = newWire();
      Pair pair(wire.left.get(), wire.right.get(), kKey, kKey);
      if (!pair.shake() || !pair.works()) _exit(3);
    }
  });
  std::this_thread::sleep_for(after);
  exit(kCode);  // NOLINT(concurrency-mt-unsafe): that is what is tried
}

}  // namespace

TEST(net_tls_a_process_may_exit_while_threads_encrypt) {
  for (int i = 0; i < 30; i++) {
    const pid_t child = fork();
    // At first OpenSSL is still being loaded.
    if (child == 0) leaveWhileEncrypting(std::chrono::microseconds(i < 20 ? i * 150 : i * 1000));
    int status = 0;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), kCode);
  }
}
#endif
