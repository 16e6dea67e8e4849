// Formats: what no input may do to Parsed, to the messages, to a connect handle. Beyond memory errors it asserts that
// what was read writes the same bytes again, that what we sealed is genuine, and that one flipped bit ends that.
#include <cstdlib>
#include <cstring>

#include "input.h"
#include "messages.h"
#include "wire/handle.h"
#include "wire/keys.h"
#include "wire/party.h"
#include "wire/refusal.h"

using namespace r2cc;
using namespace r2cc::fuzz;

namespace {

const Key kKey = {1, 2, 3, 4};

void require(bool holds) {
  if (!holds) abort();
}

template <class M>
std::vector<uint8_t> encode(const M& message) {
  std::vector<uint8_t> out;
  Writer w(out);
  w(message);
  return out;
}

void readMessage(Type type, const Reader& reader) {
  forEachMessage([&](auto message) {
    if (decltype(message)::kType != type) return;
    Reader r = reader;
    r(message);
    if (!r.ok()) return;
    const std::vector<uint8_t> again = encode(message);
    require(again.size() == reader.left() - r.left());
    auto copy = message;
    Reader second(again.data(), again.size());
    second(copy);
    require(second.ok() && second.left() == 0 && encode(copy) == again);
  });
}

void readDatagram(const std::vector<uint8_t>& bytes) {
  const auto parsed = Parsed::open(bytes.data(), bytes.size());
  const auto refusal = Refusal::open(bytes.data(), bytes.size());
  require(!parsed || !refusal);
  if (refusal) {
    (void)refusal->readable();
    (void)Refusal::genuine(bytes.data(), bytes.size(), *refusal, kKey);
  }
  if (!parsed) return;
  (void)parsed->verify(kKey);
  (void)parsed->forEach([](Type type, Reader& reader) { readMessage(type, reader); });
}

/// A header and any body, sealed as an authenticated peer can: it must open, and must not after a change.
void sealed(Input& in) {
  Header header;
  Filler fill(in);
  fill(header);
  const size_t flip = in.byte() << 8 | in.byte();
  std::vector<uint8_t> bytes = encode(header);
  const std::vector<uint8_t> start = {kMagic & 0xff, kMagic >> 8 & 0xff, kMagic >> 16 & 0xff, kMagic >> 24,
                                      kWireVersion};
  bytes.insert(bytes.begin(), start.begin(), start.end());
  const std::vector<uint8_t> body = in.bytes(kMaxDatagram);
  bytes.insert(bytes.end(), body.begin(), body.end());
  const Tag tag = sipTag(kKey, bytes.data(), bytes.size());
  bytes.insert(bytes.end(), tag.begin(), tag.end());
  readDatagram(bytes);
  const auto parsed = Parsed::open(bytes.data(), bytes.size());
  require(parsed && parsed->verify(kKey) && parsed->header().from == header.from && parsed->header().to == header.to);
  require(!parsed->verify(pairKey(kKey, header.from, header.to)));
  bytes[flip / 8 % bytes.size()] ^= static_cast<uint8_t>(1U << flip % 8);
  const auto changed = Parsed::open(bytes.data(), bytes.size());
  require(!changed || !changed->verify(kKey));
}

void handle(Input& in) {
  std::vector<uint8_t> bytes = in.bytes(NCCL_NET_HANDLE_MAXSIZE);
  bytes.resize(NCCL_NET_HANDLE_MAXSIZE);
  ConnectHandle out;
  if (!readHandle(bytes.data(), out)) return;
  require(out.nics.size() <= ConnectHandle::kAddresses);
  std::vector<uint8_t> again(NCCL_NET_HANDLE_MAXSIZE);
  writeHandle(out, again.data());
  ConnectHandle copy;
  require(readHandle(again.data(), copy) && copy.key == out.key && copy.process == out.process);
  const Party here = partyOf(out, kWireVersion), there = partyOf(out, static_cast<uint8_t>(kWireVersion + 1));
  require(conflict(here, here).empty() && !conflict(here, there).empty());
}

/// Two messages as our own code builds them, filled from the input.
void built(Input& in) {
  Datagram d(Header{});
  for (int i = 0; i < 2; i++) {
    const uint8_t wanted = in.below(32);
    forEachMessage([&](auto message) {
      if (static_cast<uint8_t>(decltype(message)::kType) != wanted) return;
      Filler fill(in);
      fill(message);
      (void)d.add(message);
    });
  }
  const std::vector<uint8_t>& bytes = d.seal(kKey);
  require(bytes.size() <= kMaxDatagram);
  readDatagram(bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input in(data, size);
  switch (in.below(4)) {
    case 0:
      readDatagram(in.bytes(size));
      break;
    case 1:
      sealed(in);
      break;
    case 2:
      handle(in);
      break;
    default:
      built(in);
  }
  return 0;
}
