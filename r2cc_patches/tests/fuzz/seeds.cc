// Writes the seed corpus: `fuzz_seeds FOLDER` fills FOLDER/wire and FOLDER/engine. Wire seeds are real messages and
// handles; engine seeds are lives of a connection with one thing after another going wrong. Run `make fuzz-seeds` after
// a change of the wire.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "input.h"
#include "messages.h"
#include "wire/handle.h"
#include "wire/refusal.h"

using namespace r2cc;
using namespace r2cc::fuzz;

namespace {

/// Numbers every field of a message differently; lists get two members.
class Counter {
 public:
  template <class T>
  void operator()(T& value) {
    if constexpr (std::is_integral_v<T>) {
      value = static_cast<T>(++next_);
    } else {
      std::apply([this](auto&&... field) { ((*this)(field), ...); }, value.fields());
    }
  }
  template <size_t N>
  void operator()(std::array<uint8_t, N>& bytes) {
    for (uint8_t& b : bytes) b = static_cast<uint8_t>(++next_);
  }
  template <class T>
  void operator()(List<T>& list) {
    list.items.resize(2);
    for (T& item : list.items) (*this)(item);
  }

 private:
  int next_ = 0;
};

void write(const std::filesystem::path& path, const std::vector<uint8_t>& bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

void writeWire(const std::filesystem::path& folder) {
  Datagram all(Header{});
  forEachMessage([&](auto message) {
    Counter count;
    count(message);
    (void)all.add(message);
    Header header;
    Counter()(header);
    Datagram one(header);
    (void)one.add(message);
    std::vector<uint8_t> bytes = one.seal({1, 2, 3, 4});
    bytes.insert(bytes.begin(), 0);  // mode: a datagram as it came
    const auto number = static_cast<int>(decltype(message)::kType);
    write(folder / ("message-" + std::to_string(number)), bytes);
  });
  std::vector<uint8_t> bytes = all.seal({1, 2, 3, 4});
  bytes.insert(bytes.begin(), 0);
  write(folder / "every-message", bytes);
  bytes.resize(bytes.size() / 2);
  write(folder / "cut-short", bytes);
  ConnectHandle handle;
  Counter()(handle);
  bytes.assign(NCCL_NET_HANDLE_MAXSIZE, 0);
  writeHandle(handle, bytes.data());
  bytes.insert(bytes.begin(), 2);  // mode: a handle
  write(folder / "handle", bytes);
  bytes = Refusal::sealed(handle, 1, "two builds");
  bytes.insert(bytes.begin(), 0);
  write(folder / "refusal", bytes);
  write(folder / "sealed", {1, 7, 7, 7, 7, 7, 7, 7, 0, 9, 1, 2, 3, 4, 5, 6, 7, 8});
  write(folder / "built", {3, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 9, 1, 2, 3});
}

/// Lives: c connects, h says Hello, a answers, p posts, w waits, and what follows goes wrong.
std::vector<uint8_t> life(const std::string& good, const std::vector<uint8_t>& then) {
  std::vector<uint8_t> out = {0};  // needsAck
  for (const char step : good) {
    if (step == 'c') out.insert(out.end(), {10, 0});
    if (step == 'h') out.insert(out.end(), {10, 1, 0});
    if (step == 'a') out.push_back(0);
    if (step == 'p') out.insert(out.end(), {11, 0, 1});
    if (step == 't') out.insert(out.end(), {11, 0, 0});
    if (step == 'w') out.insert(out.end(), {9, 5});
    if (step == 'l') out.push_back(14);
  }
  out.insert(out.end(), then.begin(), then.end());
  return out;
}

void writeEngine(const std::filesystem::path& folder) {
  const std::string sends = "cawaaawaaawppwaatt";
  const std::string receives = "hwaaawlwlwaaawaaappwatt";
  write(folder / "sends", life(sends, {}));
  write(folder / "receives", life(receives, {}));
  write(folder / "both", life(sends + receives, {}));
  for (uint8_t type = 0; type < 17; type++) {
    // A message of this kind with small numbers, once as a listener would send it and once as a connector.
    const std::vector<uint8_t> fields = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    std::vector<uint8_t> asListener = {5, static_cast<uint8_t>(128 + type)};
    std::vector<uint8_t> asConnector = {5, type};
    asListener.insert(asListener.end(), fields.begin(), fields.end());
    asConnector.insert(asConnector.end(), fields.begin(), fields.end());
    write(folder / ("sends-then-" + std::to_string(type)), life(sends, asListener));
    write(folder / ("receives-then-" + std::to_string(type)), life(receives, asConnector));
  }
  write(folder / "sends-then-links", life(sends, {13, 1, 1, 9, 5, 13, 0, 0, 0, 9, 5, 0, 0, 0, 0, 0, 0}));
  write(folder / "sends-then-breaks", life(sends, {15, 1, 0, 11, 0, 1, 9, 5, 0, 0, 0, 0, 9, 5, 0, 0, 0}));
  write(folder / "receives-then-breaks", life(receives, {15, 1, 0, 11, 0, 1, 9, 5, 0, 0, 0, 0, 9, 5, 0, 0}));
  write(folder / "sends-then-closes", life(sends, {15, 0, 0, 0, 0, 0}));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return fprintf(stderr, "usage: %s FOLDER\n", argv[0]), 2;
  writeWire(std::filesystem::path(argv[1]) / "wire");
  writeEngine(std::filesystem::path(argv[1]) / "engine");
  return 0;
}
