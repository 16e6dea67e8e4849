// Whoever reads the log or the events may be slow, or read nothing at all: nobody waits for that.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <condition_variable>

#include "check.h"
#include "record/events.h"
#include "record/scribe.h"
#include "rig/rig.h"
#include "scratch.h"

using namespace r2cc;
using namespace r2cc::fake;

namespace {

constexpr int64_t kLimitNs = msToNs(15000);

/// Holds whoever passes until it is opened.
class Barrier {
 public:
  void pass() {
    std::unique_lock<std::mutex> lock(mutex);
    waiting_++;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
  }
  void open() {
    const std::lock_guard<std::mutex> lock(mutex);
    open_ = true;
    changed_.notify_all();
  }
  bool holds() {
    std::unique_lock<std::mutex> lock(mutex);
    return changed_.wait_for(lock, std::chrono::seconds(10), [this] { return waiting_ > 0; });
  }

  std::mutex mutex;

 private:
  std::condition_variable changed_;
  int waiting_ = 0;
  bool open_ = false;
};

std::string missing(uint64_t lines) { return std::to_string(lines) + " missing"; }

/// A pipe with a name that nobody reads, and that is full.
struct FullPipe {
  FullPipe() : path(scratch.path() + "/events") {
    if (mkfifo(path.c_str(), 0600) != 0) return;
    fd = open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
    const std::string filler(4096, '\n');
    for (ssize_t size = 0; (size = write(fd, filler.data(), filler.size())) > 0;) filled += static_cast<size_t>(size);
  }
  ~FullPipe() {
    if (fd >= 0) close(fd);
  }
  FullPipe(const FullPipe&) = delete;
  FullPipe& operator=(const FullPipe&) = delete;
  /// Reads whatever is there.
  std::string take() const {
    std::string out;
    char buffer[65536];
    for (ssize_t size = 0; (size = read(fd, buffer, sizeof(buffer))) > 0;)
      out.append(buffer, static_cast<size_t>(size));
    return out;
  }
  check::Scratch scratch;
  const std::string path;
  int fd = -1;
  size_t filled = 0;
};

}  // namespace

TEST(net_scribe_keeps_the_order) {
  std::string said;
  {
    Scribe scribe("test", missing);
    const auto a = scribe.through([&](const std::string& text) { said += "a" + text; });
    const auto b = scribe.through([&](const std::string& text) { said += "b" + text; });
    for (int i = 0; i < 5; i++) a(std::to_string(i)), b(std::to_string(i));
    CHECK(scribe.flush(kLimitNs));
    CHECK_EQ(said, "a0b0a1b1a2b2a3b3a4b4");
    a("5");
  }
  CHECK_EQ(said, "a0b0a1b1a2b2a3b3a4b4a5");
}

TEST(net_scribe_is_bounded_and_says_what_is_missing) {
  Barrier barrier;
  std::vector<std::string> said;
  Scribe scribe("test", missing);
  const auto write = scribe.through([&](const std::string& text) {
    barrier.pass();
    said.push_back(text);
  });
  write("first");
  CHECK(barrier.holds());
  const std::string big(Scribe::kMostBytes / 4, 'x');
  for (int i = 0; i < 3; i++) write(big);
  for (int i = 0; i < 7; i++) write(big);            // no room
  write(std::string(Scribe::kMostBytes / 2, '\n'));  // so many lines
  write("small");                                    // has room, behind what is missing
  CHECK(!scribe.flush(msToNs(1)));
  barrier.open();
  CHECK(scribe.flush(kLimitNs));
  CHECK_EQ(said.size(), 6u);
  if (said.size() != 6) return;
  CHECK_EQ(said[4], std::to_string(7 + Scribe::kMostBytes / 2) + " missing");
  CHECK_EQ(said[5], "small");
  for (int i = 0; i < 3; i++) write(big);
  CHECK(scribe.flush(kLimitNs));
  CHECK_EQ(said.size(), 9u);  // said once
}

/// As when a log ends full: the count is not lost with the lines.
TEST(net_scribe_says_at_the_end_what_is_missing) {
  Barrier barrier;
  std::string last;
  {
    Scribe scribe("test", missing);
    const auto write = scribe.through([&](const std::string& text) {
      barrier.pass();
      last = text;
    });
    write("first");
    CHECK(barrier.holds());
    write(std::string(Scribe::kMostBytes, 'x'));
    barrier.open();
  }
  CHECK_EQ(last, "1 missing");
}

TEST(net_scribe_ends_though_its_writer_hangs) {
  const auto barrier = std::make_shared<Barrier>();
  const int64_t start = nowNs();
  {
    Scribe scribe("test", missing);
    scribe.through([barrier](const std::string&) { barrier->pass(); })("x");
    CHECK(barrier->holds());
  }
  const int64_t took = nowNs() - start;
  CHECK(took >= Scribe::kPatienceNs);
  barrier->open();
}

/// What was handed out may still be called when the scribe is gone.
TEST(net_scribe_what_it_gave_outlives_it) {
  std::string said;
  Scribe::Write write;
  {
    Scribe scribe("test", missing);
    write = scribe.through([&](const std::string& text) { said += text; });
  }
  write("late");
  CHECK_EQ(said, "late");
}

namespace {

/// Both directions half-way, a NIC lost, and one more connection made after that.
void loseAndConnect(Rig& rig) {
  rig.stream(0, 1, 0, 2000);
  rig.stream(1, 0, 1, 2000);
  rig.start();
  CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() > 400; }));
  rig.link(0, 0, false);
  CHECK(rig.allDone(kLimitNs));
  rig.stop();
  rig.stream(0, 1, 2, 50);
  rig.start();
  CHECK(rig.allDone(kLimitNs));
}

}  // namespace

TEST(net_scribe_events_to_a_pipe_that_nobody_reads) {
  FullPipe pipe;
  CHECK(pipe.fd >= 0);
  std::string events;
  {
    RigOptions o;
    o.eventFile = pipe.path;
    Rig rig(o);
    loseAndConnect(rig);
    rig.stop();
    CHECK_EQ(rig.problems(), "");
    events = pipe.take();
  }
  events += pipe.take();
  CHECK_EQ(events.find('{'), pipe.filled);  // nothing had room until then
  CHECK(events.find("\"state\":\"down\"") != std::string::npos);
  CHECK(events.find("\"state\":\"down\"") < events.find("\"event\":\"net_end\""));
  CHECK(events.find("\"event\":\"net_end\"") != std::string::npos);
  CHECK(events.find("missing") == std::string::npos);
}

TEST(net_scribe_log_whose_reader_sleeps) {
  Barrier barrier;
  std::vector<std::string> said;
  {
    RigOptions o;
    o.log = [&](int host, const std::string& text) {
      barrier.pass();
      const std::lock_guard<std::mutex> lock(barrier.mutex);
      if (host == 0) said.push_back(text);
    };
    Rig rig(o);
    loseAndConnect(rig);
    CHECK(barrier.holds());
    CHECK(said.empty());
    for (int rail = 1; rail < 3; rail++) rig.link(0, rail, false);
    rig.link(0, 0, true);
    rig.stop();
    CHECK_EQ(rig.problems(), "");
    barrier.open();
    rig.engine(0).flushAtExit();
    const std::lock_guard<std::mutex> lock(barrier.mutex);
    const auto places = [&](const char* what) {
      std::vector<size_t> out;
      for (size_t i = 0; i < said.size(); i++) {
        if (said[i].find(what) != std::string::npos) out.push_back(i);
      }
      return out;
    };
    const auto lost = places("lost its link"), holding = places("holding"), back = places("has its link back");
    CHECK_EQ(lost.size(), 3u);
    CHECK_EQ(back.size(), 1u);
    CHECK(!holding.empty());
    if (lost.size() == 3 && !holding.empty() && !back.empty()) {
      CHECK(lost[2] < holding[0] && holding[0] < back[0]);
    }
  }
}

TEST(net_scribe_at_exit_waits_for_a_while) {
  Barrier barrier;
  {
    RigOptions o;
    o.log = [&](int, const std::string&) { barrier.pass(); };
    Rig rig(o);
    rig.link(0, 0, false);
    CHECK(barrier.holds());
    const int64_t start = nowNs();
    rig.engine(0).flushAtExit();
    CHECK(nowNs() - start >= Scribe::kPatienceNs);
    barrier.open();
    rig.engine(0).flushAtExit();
  }
}
