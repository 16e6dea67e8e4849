// The flight recorder: rings that are read while they are written, dumps that are whole or not there, memory that ends.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <thread>

#include "check.h"
#include "data/connection.h"
#include "engine/config.h"
#include "record/flight.h"
#include "record/flight_file.h"
#include "scratch.h"

using namespace r2cc;
using r2cc::check::Scratch;

namespace {

bool exists(const std::string& file) { return access(file.c_str(), F_OK) == 0; }

bool appears(const std::string& file, int withinMs = 5000) {
  for (int waited = 0; waited < withinMs && !exists(file); waited += 10) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return exists(file);
}

std::string contentOf(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

FlightOptions options(const std::string& file, std::vector<std::string>* warnings = nullptr, size_t bytes = 4 << 20) {
  FlightOptions out;
  out.file = file;
  out.bytes = bytes;
  out.nics = {"eth0", "eth1"};
  out.process = 0xabc;
  out.warn = [warnings](const std::string& text) {
    if (warnings != nullptr) warnings->push_back(text);
  };
  return out;
}

Record message(uint64_t number) {
  const auto low = static_cast<uint32_t>(number);
  return {number, number, low, low, low, RecordKind::Post, static_cast<uint8_t>(number), static_cast<uint16_t>(number)};
}

bool whole(const Record& r) {
  const Record same = message(r.number);
  return r.ticks == same.ticks && r.bytes == same.bytes && r.lane == same.lane && r.epoch == same.epoch &&
         r.kind == same.kind && r.code == same.code && r.text == same.text;
}

const Route kRoute{// NOLINT(bugprone-throwing-static-initialization): a test without memory may end
                   "10.0.0.2", "eth0", 1};

void state(Recorder& recorder, ConnectionState next, uint32_t epoch, const std::string& cause = "test") {
  recorder.state(static_cast<uint8_t>(next), epoch, cause, kRoute);
}

}  // namespace

TEST(net_recorder_ring_keeps_the_newest) {
  RecordRing ring(8);
  CHECK(ring.snapshot().records.empty());
  for (uint64_t i = 0; i < 5; i++) ring.write(message(i));
  CHECK_EQ(ring.snapshot().first, 0U);
  CHECK_EQ(ring.snapshot().records.size(), 5U);
  for (uint64_t i = 5; i < 1000; i++) ring.write(message(i));
  const RecordRing::Snapshot kept = ring.snapshot();
  CHECK_EQ(kept.records.size(), 7U);  // the eighth place may be in the middle of a write, for all a reader knows
  CHECK_EQ(kept.first, 993U);
  for (size_t i = 0; i < kept.records.size(); i++) {
    CHECK_EQ(kept.records[i].number, 993 + i);
    CHECK(whole(kept.records[i]));
  }
}

TEST(net_recorder_reading_while_writing_yields_whole_records_only) {
  RecordRing ring(64);
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (uint64_t i = 0; !stop; i++) ring.write(message(i));
  });
  int torn = 0, misplaced = 0;
  size_t seen = 0;
  const int64_t end = nowNs() + msToNs(10000);  // the writer's thread may take its time to start
  for (int round = 0; round < 3000 || (seen < 1000 && nowNs() < end); round++) {
    const RecordRing::Snapshot kept = ring.snapshot();
    for (size_t i = 0; i < kept.records.size(); i++) {
      seen++;
      torn += whole(kept.records[i]) ? 0 : 1;
      misplaced += kept.records[i].number == kept.first + i ? 0 : 1;
    }
  }
  stop = true;
  writer.join();
  CHECK_EQ(torn, 0);
  CHECK_EQ(misplaced, 0);
  CHECK(seen >= 1000);
}

TEST(net_recorder_without_a_flight_records_nothing) {
  Recorder recorder;
  recorder.post(1, 2, 3);
  recorder.laneDown(1, "cause");
  state(recorder, ConnectionState::Failed, 1);
  recorder.replay(1, 1, 1);
  unsetenv("R2CC_TRACE_FILE");
  CHECK(Config::fromEnvironment().traceFile.empty());
}

TEST(net_recorder_dumps_while_connections_write) {
  const Scratch folder;
  std::atomic<bool> stop{false};
  Flight flight(options(folder / "dump"));
  std::vector<std::thread> writers;
  for (uint64_t id = 1; id <= 2; id++) {
    writers.emplace_back([&, id] {
      Recorder recorder = flight.open(id, true, 7);
      for (uint64_t n = 0; !stop; n++) {
        recorder.post(n, 4096, 1);
        if (n % 64 == 0) state(recorder, ConnectionState::Exchanging, 1, "round " + std::to_string(n % 1000));
      }
    });
  }
  std::string last;
  const auto both = [&] { return contains(last, "\"id\":1,") && contains(last, "\"id\":2,"); };
  for (int i = 0; i < 20 || (!both() && i < 2000); i++) {
    const std::vector<uint8_t> content = flight.content("test");
    last.assign(content.begin(), content.end());
  }
  for (int i = 0; i < 200; i++) flight.path(0, 1, "peer", 2, "probe");
  stop = true;
  for (std::thread& writer : writers) writer.join();
  CHECK(both());
  CHECK(last.size() < 1 << 20);  // whatever was written, a dump is no larger than the rings
}

TEST(net_recorder_final_dump_holds_what_happened) {
  const Scratch folder;
  const std::string file = folder / "%h.%p.%%.dump";
  std::string written;
  {
    Flight flight(options(file));
    written = flight.file();
    Recorder recorder = flight.open(42, false, 0x1234);
    state(recorder, ConnectionState::Active, 3, "a \"quoted\" cause");
    recorder.post(5, 100, 9);
  }
  CHECK(contains(written, "." + std::to_string(getpid()) + ".%.dump"));
  const std::string text = contentOf(written);
  CHECK_EQ(text.substr(0, 8), std::string(kDumpMagic));
  for (const char* part :
       {"\"reason\":\"finalize\"", "\"process\":\"0000000000000abc\"", "\"id\":42,\"direction\":\"recv\"",
        "\"peer_process\":\"0000000000001234\"", "\"home_nic\":\"eth0\"", "a \\\"quoted\\\" cause",
        "\"nics\":[\"eth0\",\"eth1\"]", "\"peer_home_nic\":1"}) {
    CHECK(contains(text, part));
  }
  CHECK(!exists(written + ".part"));
}

TEST(net_recorder_failure_and_recovery_leave_numbered_dumps) {
  const Scratch folder;
  Flight flight(options(folder / "dump"));
  Recorder recorder = flight.open(1, true, 7);
  state(recorder, ConnectionState::Active, 1);  // the connect is nothing to tell of
  std::this_thread::sleep_for(std::chrono::milliseconds(250));
  CHECK(!exists(folder / "dump.1"));
  state(recorder, ConnectionState::Frozen, 1);
  state(recorder, ConnectionState::Active, 2);
  CHECK(appears(folder / "dump.1"));
  state(recorder, ConnectionState::Failed, 2);
  CHECK(appears(folder / "dump.2"));
  CHECK(contains(contentOf(folder / "dump.1"), "\"reason\":\"incident\""));
}

TEST(net_recorder_dumps_on_request) {
  const Scratch folder;
  Flight flight(options(folder.path()));
  CHECK_EQ(flight.requestFile(), folder / "request");
  CHECK(contains(flight.file(), folder.path() + "/"));
  std::ofstream(folder / "request") << "now";
  CHECK(appears(flight.file() + ".1"));
  CHECK(contains(contentOf(flight.file() + ".1"), "\"reason\":\"request\""));
}

// A file-size limit is what a full disk looks like to one process; without the blocked signal it would kill this one.
TEST(net_recorder_full_disk_is_one_warning) {
  const Scratch folder;
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{512, before.rlim_max};
  std::vector<std::string> warnings;
  {
    Flight flight(options(folder / "dump", &warnings));
    Recorder recorder = flight.open(1, true, 7);
    setrlimit(RLIMIT_FSIZE, &small);
    state(recorder, ConnectionState::Failed, 1);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  }
  setrlimit(RLIMIT_FSIZE, &before);
  CHECK_EQ(warnings.size(), 1U);
  CHECK(!warnings.empty() && contains(warnings[0], "R2CC_TRACE_FILE"));
  for (const char* file : {"dump", "dump.1", "dump.part", "dump.1.part"}) CHECK(!exists(folder / file));
}

TEST(net_recorder_a_failed_write_leaves_the_old_file) {
  const Scratch folder;
  CHECK(writeWhole(folder / "file", {'o', 'l', 'd'}).empty());
  CHECK(mkdir((folder / "file.part").c_str(), 0700) == 0);  // in the way of the next one
  CHECK(!writeWhole(folder / "file", {'n', 'e', 'w'}).empty());
  CHECK_EQ(contentOf(folder / "file"), "old");
  CHECK(!writeWhole(folder / "nowhere/file", {'x'}).empty());
}

TEST(net_recorder_memory_is_bounded) {
  const Scratch folder;
  Flight flight(options(folder / "dump"));
  std::vector<Recorder> open;
  open.reserve(512);
  for (uint64_t id = 0; id < 512; id++) open.push_back(flight.open(id, true, 7));
  CHECK(flight.bytes() <= 6U << 20);
  open.clear();
  for (uint64_t id = 0; id < 5000; id++) open.assign(1, flight.open(1000 + id, true, 7));
  CHECK(flight.bytes() <= 4U << 20);  // rings of closed connections made room
  for (int i = 0; i < 5000; i++) CHECK(flight.text("cause " + std::to_string(i)) < 512);
  CHECK(flight.text("cause 3") != flight.text("cause 4"));
}

TEST(net_recorder_ticks_are_the_monotonic_clock) {
  for (const bool counter : {false, TickClock::counterIsSteady()}) {
    TickClock clock(counter);
    int64_t worst = 0;
    std::vector<std::pair<uint64_t, int64_t>> taken;
    for (int i = 0; i < 50; i++) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      const int64_t before = nowNs();
      const uint64_t ticks = clock.now();
      if (nowNs() - before < 20000) taken.emplace_back(ticks, before);  // not interrupted in between
      if (i % 10 == 0) clock.anchor();
    }
    clock.anchor();
    for (const auto& [ticks, ns] : taken) worst = std::max(worst, std::abs(clock.toNs(ticks) - ns));
    CHECK(!taken.empty());
    CHECK(worst < 100000);  // 0.1 ms: an anchor's own reading may have been interrupted
  }
}
