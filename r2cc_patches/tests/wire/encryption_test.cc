// What R2CC_TLS makes of datagrams and keys, and what an operator may write.
#include "wire/encryption.h"

#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <stdexcept>

#include "check.h"
#include "scratch.h"
#include "wire/keys.h"
#include "wire/party.h"
#include "wire/wire.h"

using namespace r2cc;

namespace {

constexpr uint64_t kConnector = 11, kListener = 12;
const std::string kWord = "a reason that nobody else may read";

Encryption some(uint8_t first) {
  Encryption out;
  out.secret[0] = first;
  out.check = first;
  return out;
}

Header header(bool fromListener, uint64_t seq) {
  Header out;
  out.from = fromListener ? kListener : kConnector, out.to = fromListener ? kConnector : kListener;
  out.seq = seq;
  out.keyOfSender = fromListener ? 1 : 0;
  return out;
}

std::vector<uint8_t> sealed(const PairKey& key, const Header& of) {
  Datagram datagram(of);
  Bye bye;
  bye.connection = 5;
  bye.reason.assign(kWord.begin(), kWord.end());
  CHECK(datagram.add(bye));
  return datagram.seal(key);
}

bool opens(const std::vector<uint8_t>& bytes, const PairKey& key) {
  auto parsed = Parsed::open(bytes.data(), bytes.size());
  if (!parsed || !parsed->admit(key)) return false;
  std::string said;
  CHECK(parsed->forEach([&](Type type, Reader& reader) {
    CHECK(type == Type::Bye);
    Bye bye;
    reader(bye);
    said.assign(bye.reason.begin(), bye.reason.end());
  }));
  CHECK_EQ(said, kWord);
  return true;
}

bool shows(const std::vector<uint8_t>& bytes) {
  return std::search(bytes.begin(), bytes.end(), kWord.begin(), kWord.end()) != bytes.end();
}

std::string refused(const std::string& wanted, const std::string& file) {
  try {
    (void)encryptionOf(wanted, file);
  } catch (const std::invalid_argument& problem) {
    return problem.what();
  }
  return "";
}

}  // namespace

TEST(net_encrypted_datagrams_are_read_by_their_pair_alone) {
  const Key listener = randomKey();
  const Encryption none, one = some(1);
  const PairKey clear = PairKey::of(listener, kConnector, kListener, nullptr);
  const PairKey key = PairKey::of(listener, kConnector, kListener, &none);
  CHECK(!clear.encrypts() && key.encrypts());
  CHECK(clear.key() == pairKey(listener, kConnector, kListener));
  CHECK(shows(sealed(clear, header(true, 1))));  // what is looked for below can be found
  for (const bool fromListener : {true, false}) {
    const std::vector<uint8_t> bytes = sealed(key, header(fromListener, 7));
    CHECK_EQ(bytes.size(), sealed(clear, header(fromListener, 7)).size());
    CHECK(!shows(bytes));
    CHECK(opens(bytes, key));
    CHECK(opens(bytes, PairKey::of(listener, kConnector, kListener, &none)));
    for (const PairKey& other :
         {clear, PairKey::of(listener, kConnector, kListener, &one),
          PairKey::of(listener, kListener, kConnector, &none), PairKey::of(listener, kConnector + 1, kListener, &none),
          PairKey::of(randomKey(), kConnector, kListener, &none)}) {
      CHECK(!opens(bytes, other));
    }
    CHECK(!opens(sealed(clear, header(fromListener, 7)), key));  // nothing in the clear is believed
  }
  CHECK(sealed(key, header(true, 7)) != sealed(key, header(true, 8)));
  // The two directions do not share a stream of numbers.
  const std::vector<uint8_t> a = sealed(key, header(true, 7)), b = sealed(key, header(false, 7));
  CHECK(!std::equal(a.end() - 60, a.end() - 16, b.end() - 60));
}

TEST(net_encrypted_datagrams_show_every_flipped_bit) {
  const Encryption none;
  const PairKey key = PairKey::of(randomKey(), kConnector, kListener, &none);
  std::vector<uint8_t> bytes = sealed(key, header(false, 3));
  for (size_t bit = 0; bit < bytes.size() * 8; bit++) {
    bytes[bit / 8] ^= static_cast<uint8_t>(1U << (bit % 8));
    CHECK(!opens(bytes, key));
    bytes[bit / 8] ^= static_cast<uint8_t>(1U << (bit % 8));
  }
  CHECK(opens(bytes, key));
}

TEST(net_encrypted_lanes_have_keys_of_their_own) {
  const Key listener = randomKey();
  const Encryption one = some(1), two = some(2);
  const PairKey key = PairKey::of(listener, kConnector, kListener, &one);
  CHECK(key.lane(1, 2) == PairKey::of(listener, kConnector, kListener, &one).lane(1, 2));
  CHECK(key.lane(1, 2) != key.lane(1, 3));
  CHECK(key.lane(1, 2) != key.lane(2, 2));
  CHECK(key.lane(1, 2) != PairKey::of(listener, kConnector, kListener, &two).lane(1, 2));
}

TEST(net_encryption_off_is_off) {
  for (const char* off : {"", "0"}) CHECK(encryptionOf(off, "") == nullptr);
  CHECK(refused("yes", "").find("R2CC_TLS is 0 or 1, not yes") != std::string::npos);
  CHECK(refused("", "/a/file").find("R2CC_TLS=1 is not") != std::string::npos);
}

TEST(net_encryption_reads_a_secret_that_others_cannot) {
  const check::Scratch folder;
  const std::string file = folder / "secret";
  const auto write = [&](const std::string& text, mode_t mode) {
    std::ofstream(file, std::ios::trunc) << text;
    CHECK_EQ(chmod(file.c_str(), mode), 0);
  };
  CHECK(refused("1", file).find("No such file") != std::string::npos);
  CHECK(refused("1", folder.path()).find("no plain file") != std::string::npos);
  write(std::string(40, 'x'), 0604);
  CHECK(refused("1", file).find("chmod o-rw " + file) != std::string::npos);
  write(std::string(31, 'x'), 0600);
  CHECK(refused("1", file).find("31 bytes") != std::string::npos);
  write(std::string(4097, 'x'), 0600);
  CHECK(refused("1", file).find("more than 4096") != std::string::npos);
  write(std::string(32, 'x'), 0640);
  const auto one = encryptionOf("1", file), again = encryptionOf("1", file), without = encryptionOf("1", "");
  write(std::string(32, 'y'), 0600);
  const auto other = encryptionOf("1", file);
  CHECK(one->secret == again->secret && one->check == again->check && one->check != 0);
  CHECK(one->secret != other->secret && one->check != other->check);
  CHECK(without->check == 0 && without->secret == TlsKey{});
}

TEST(net_encryption_must_be_alike_at_both_ends) {
  const Encryption none, one = some(1), two = some(2);
  const auto says = [](const Encryption* mine, const Encryption* theirs) {
    ConnectHandle handle;
    handle.listen = 77;
    describeIn(handle, ownParty(1, Inner::Socket, theirs));
    const Party there = partyOf(handle, kWireVersion);
    CHECK(there.inner == Inner::Socket && there.mode == 1);
    CHECK_EQ(handle.listen & UINT32_MAX, 77u);
    return conflict(ownParty(1, Inner::Socket, mine), there);
  };
  CHECK_EQ(says(nullptr, nullptr), "");
  CHECK_EQ(says(&none, &none), "");
  CHECK_EQ(says(&one, &one), "");
  CHECK(says(&none, nullptr).find("R2CC_TLS is 1 on ") == 0);
  CHECK(says(nullptr, &one).find("R2CC_TLS is 0 on ") == 0);
  CHECK(says(&one, &none).find("R2CC_TLS_SECRET_FILE is set on ") == 0);
  CHECK(says(&one, &two).find("to files that differ") != std::string::npos);
}
