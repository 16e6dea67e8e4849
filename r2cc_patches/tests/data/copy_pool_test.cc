// Buffers of copies: the last one given back is taken first, and no more wait than the pool may hold.
#include "data/copy_pool.h"

#include "check.h"

using namespace r2cc;

TEST(net_copies_take_the_buffer_that_was_given_back_last) {
  CopyPool pool;
  CopyBuffer one = pool.take(5000), two = pool.take(16384), small = pool.take(1);
  CHECK_EQ(one.size, 16384u);
  CHECK_EQ(two.size, 16384u);
  CHECK_EQ(small.size, 4096u);
  const uint8_t *first = one.bytes.get(), *last = two.bytes.get();
  pool.give(std::move(small));
  pool.give(std::move(one));
  pool.give(std::move(two));
  CHECK_EQ(pool.spareBytes(), CopyPool::kMostSpare > 0 ? 2 * 16384u + 4096u : 0u);
  if (CopyPool::kMostSpare == 0) return;  // under ASan
  one = pool.take(16384), two = pool.take(4097);
  CHECK(one.bytes.get() == last && two.bytes.get() == first);
  CHECK_EQ(pool.spareBytes(), 4096u);
}

TEST(net_copies_keep_no_more_buffers_than_the_pool_holds) {
  CopyPool pool;
  std::vector<CopyBuffer> all(CopyPool::kMostSpare / 65536 + 3);
  for (CopyBuffer& buffer : all) buffer = pool.take(65536);
  for (CopyBuffer& buffer : all) pool.give(std::move(buffer));
  CHECK_EQ(pool.spareBytes(), CopyPool::kMostSpare);
  CopyBuffer own = pool.take(65537);  // larger than any
  CHECK_EQ(own.size, 65537u);
  pool.give(std::move(own));
  CHECK_EQ(pool.spareBytes(), CopyPool::kMostSpare);
}
