/** K9: the number of blocks that a multiprocessor runs is that of a launch with as much shared memory. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Module } from 'cuda-streams'
import { onEveryBackend } from '../helpers/suite.js'

const KIB = 1024

/** A kernel that declares so many bytes of shared memory. */
const declaring = (bytes: number): string => `.version 7.0
.target sm_70
.address_size 64
.visible .entry declares(.param .u64 to)
{
  .reg .u32 %s;
  .shared .align 4 .b8 fixed[${bytes}];
  mov.u32 %s, fixed;
  st.volatile.shared.u32 [%s], 7;
  ret;
}
`

onEveryBackend('occupancy', (bench) => {
  const { device } = bench
  const most = device.attribute('maxSharedMemoryPerBlockOptin')

  for (const fixed of [4, 40 * KIB]) {
    test(`K9 blocks with more than 48 KiB of shared memory, ${fixed} bytes of which are declared, are counted, in any order`, () => {
      const sizes = [0, 48 * KIB - fixed, 48 * KIB - fixed + 4, 100_000 - fixed, most - fixed]
      const counts = [sizes, [...sizes].reverse()].map((order) => {
        using module = Module.load(declaring(fixed), { device })
        const kernel = module.kernel('declares', ['u64'])
        return new Map(order.map((size) => [size, kernel.activeBlocks(32, size)]))
      })
      const [upwards, downwards] = counts.map((each) => sizes.map((size) => each.get(size)))
      assert.deepEqual(upwards, downwards, 'a limit that an earlier question raised must not decide')
      const all = device.attribute('maxSharedMemoryPerMultiprocessor')
      for (const [index, size] of sizes.entries()) {
        const count = upwards?.[index] ?? 0
        assert.ok(count >= 1, `${count} blocks of ${size} bytes`)
        assert.ok(count * (size + fixed) <= all, `${count} blocks of ${size} bytes are more than ${all}`)
      }
    })

    test(`K9 no block has more shared memory than the device, ${fixed} bytes of it declared`, () => {
      using module = Module.load(declaring(fixed), { device })
      const kernel = module.kernel('declares', ['u64'])
      for (const size of [most - fixed + 4, 1 << 30]) assert.equal(kernel.activeBlocks(32, size), 0)
      assert.ok(kernel.activeBlocks(32, most - fixed) >= 1, 'the question changes nothing')
    })
  }
})
