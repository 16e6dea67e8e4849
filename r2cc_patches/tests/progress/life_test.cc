// Threads, forks, ends in the middle, and files that nobody reads.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <atomic>

#include "check.h"
#include "player.h"
#include "watched.h"

using namespace r2cc;
using namespace r2cc::play;

namespace {

/// How a child ended that did `body` and then returned from main.
template <typename Body>
int child(const Body& body) {
  const pid_t pid = fork();
  if (pid == 0) {
    alarm(20);
    body();
    std::exit(0);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return status;
}

}  // namespace

TEST(threads_lose_nothing) {
  const Watched watched;
  constexpr int kThreads = 4, kCollectives = 2000;
  {
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; t++) {
      threads.emplace_back([t] {
        Player<V6> player({static_cast<uint64_t>(t + 1), "of a thread", 0, 2, 2});
        // As in NCCL, one thread launches and another moves.
        std::atomic<void*> handed{nullptr};
        std::thread proxy([&] {
          for (int i = 0; i < kCollectives; i++) {
            void* task = nullptr;
            while ((task = handed.exchange(nullptr)) == nullptr) std::this_thread::yield();
            void* op = player.op(task, true);
            player.wholeStep(op, true, 3);
            player.stop(op);
          }
        });
        for (int i = 0; i < kCollectives; i++) {
          void* task = player.launch(1);
          void* nothing = nullptr;
          while (!handed.compare_exchange_weak(nothing, task)) nothing = nullptr, std::this_thread::yield();
          player.stop(task);
        }
        proxy.join();
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  for (int t = 0; t < kThreads; t++) {
    const Line last = watched.last("\"comm\":\"000000000000000" + std::to_string(t + 1) + "\"");
    CHECK_EQ(last.number("collectives"), kCollectives);
    CHECK_EQ(last.number("ended"), kCollectives);
    CHECK_EQ(last.number("bytes"), 3 * kCollectives);
  }
  CHECK_EQ(watched.lines("comm_end").size(), static_cast<size_t>(kThreads));
}

TEST(a_child_writes_nothing) {
  const Watched watched;
  Player<V6> player;
  player.collective(1, 1, 10);
  const int status = child([&] {
    player.collective(1, 1, 10);
    Player<V6> own;
    own.collective(1, 1, 10);
    const bool watched = own.context() != nullptr;
    own.finalize(), player.finalize();
    _exit(watched ? 7 : 0);  // exit() would look for leaks, which waits for a lock that a thread of the parent may hold
  });
  CHECK_EQ(status, 0);
  player.finalize();
  CHECK_EQ(watched.lines("comm_end").size(), 1U);
  CHECK_EQ(watched.last().number("bytes"), 20);
}

TEST(a_child_of_a_program_without_communicators_is_watched) {
  const Watched watched;
  library();
  CHECK_EQ(child([] { Player<V6>().collective(1, 1, 10); }), 0);
  CHECK_EQ(watched.last().number("bytes"), 20);
}

TEST(an_end_in_the_middle) {
  const Watched watched;
  Player<V6> player;
  void* task = player.launch(1);
  void* op = player.op(task, true);
  player.stop(task);
  void* step = player.step(op);
  player.moved(op, step, true, 10);
  player.finalize();
  CHECK_EQ(watched.last().number("ended"), 0);
  CHECK_EQ(watched.last().number("bytes"), 10);
  // The next takes its place, and what is late means nothing to it.
  Player<V6> next({9, "next", 0, 2, 2});
  CHECK(player.step(op) == nullptr);
  CHECK(player.op(task, true) == nullptr);
  player.moved(op, step, true, 10);
  player.stop(step), player.stop(op), player.stop(task);
  next.finalize();
  CHECK_EQ(watched.last("\"comm\":\"0000000000000009\"").number("bytes"), 0);
  CHECK_EQ(watched.last("\"comm\":\"0000000000000009\"").number("stall_us"), 0);
}

TEST(a_thousand_communicators_one_after_the_other) {
  const Watched watched;
  for (int i = 0; i < 1000; i++) Player<V6>().collective(1, 1, 1);
  CHECK_EQ(watched.lines("comm_end").size(), 1000U);
}

TEST(what_was_done_is_written_at_the_end_of_the_process) {
  const Watched watched;
  setenv("R2CC_PROGRESS_MS", "60000", 1);
  CHECK_EQ(child([] {
             static Player<V6>* player = new Player<V6>;  // as a program that never destroys its communicator
             player->collective(1, 1, 10);
             std::this_thread::sleep_for(std::chrono::milliseconds(50));
             player->collective(1, 1, 10);
           }),
           0);
  CHECK_EQ(watched.last().number("bytes"), 40);
}

TEST(nowhere_to_write_to) {
  const Watched watched;
  for (const char* file : {"", "/no/such/folder/file"}) {
    setenv("R2CC_PROGRESS_FILE", file, 1);
    CHECK_EQ(child([] {
               Player<V6> player;
               if (player.mask() != 0 || player.context() != nullptr) _exit(7);
               if (player.launch(1) != nullptr) _exit(8);
             }),
             0);
  }
}

TEST(nobody_waits_for_a_full_pipe) {
  const Watched watched;
  const std::string pipe = watched.file() + ".pipe";
  CHECK_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const int reader = open(pipe.c_str(), O_RDWR | O_CLOEXEC);
  fcntl(reader, F_SETPIPE_SZ, 4096);
  setenv("R2CC_PROGRESS_FILE", pipe.c_str(), 1);
  setenv("R2CC_PROGRESS_MS", "1", 1);
  CHECK_EQ(child([] {
             Player<V6> player;
             const auto began = std::chrono::steady_clock::now();
             for (int i = 0; i < 200; i++) {
               player.collective(1, 1, 1);
               std::this_thread::sleep_for(std::chrono::milliseconds(1));
             }
             player.finalize();
             if (std::chrono::steady_clock::now() - began > std::chrono::seconds(10)) _exit(7);
           }),
           0);
  close(reader);
}

TEST(a_reader_that_has_gone_away_ends_nothing) {
  const Watched watched;
  int ends[2];
  CHECK_EQ(pipe(ends), 0);
  setenv("R2CC_PROGRESS_FILE", ("/proc/self/fd/" + std::to_string(ends[1])).c_str(), 1);
  CHECK_EQ(child([&] {
             Player<V6> player;
             player.collective(1, 1, 1);
             close(ends[0]);
             for (int i = 0; i < 20; i++) {
               player.collective(1, 1, 1);
               std::this_thread::sleep_for(std::chrono::milliseconds(10));
             }
           }),
           0);
}

// Both write to one file, neither over the other.
TEST(a_file_that_the_program_writes_too) {
  const Watched watched;
  const std::string file = watched.file();
  setenv("R2CC_PROGRESS_FILE", "/proc/self/fd/1", 1);
  CHECK_EQ(child([&] {
             dup2(open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
             Player<V6> player;
             for (int i = 0; i < 50; i++) {
               player.collective(1, 1, 1);
               (void)!write(1, "of the program\n", 15);
               std::this_thread::sleep_for(std::chrono::milliseconds(3));
             }
           }),
           0);
  int own = 0;
  for (const Line& line : linesOf(file)) {
    if (line.text == "of the program") own++;
    CHECK(line.text == "of the program" || (line.text.front() == '{' && line.text.back() == '}'));
  }
  CHECK_EQ(own, 50);
  CHECK_EQ(watched.last().number("bytes"), 100);
}

TEST(names_of_any_kind_make_one_line) {
  const Watched watched;
  const std::string name = "\"\\\n" + std::string(10000, 'x');
  Player<V6>({1, name.c_str(), 0, 2, 2}).collective(1, 1, 1);
  const auto comms = watched.lines("comm");
  CHECK_EQ(comms.size(), 1U);
  CHECK(comms[0].has("\"name\":\"\\\"\\\\\\u000axxx"));
  CHECK(comms[0].text.size() < 1000);
}

TEST(a_period_that_is_none) {
  const Watched watched;
  setenv("R2CC_PROGRESS_MS", "often", 1);
  Player<V6>().collective(1, 1, 1);
  CHECK_EQ(watched.last().number("bytes"), 2);
}
