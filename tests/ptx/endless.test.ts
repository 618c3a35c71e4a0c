/** Loops that never end, and loops that are entered in the middle: what a loop within the code uses up counts towards the limit at once. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { faultOf } from './faults.js'
import { Machine } from './machine.js'

const kernel = (body: string): string => `.version 8.0
.target sm_75
.address_size 64
.visible .entry k(.param .u64 out)
{
.reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<3>;
mov.u32 %r1, %tid.x; mov.u32 %r2, 0; mov.u32 %r3, 0;
${body}
END: ld.param.u64 %rd1, [out]; st.global.u32 [%rd1], %r2;
ret;
}
`

describe('an endless loop ends after a few turns of its threads, whatever its shape', () => {
  const LIMIT = 1e6
  for (const [name, body] of [
    ['with one entry', 'TOP: add.u32 %r2, %r2, 2; setp.ne.u32 %p2, %r2, 5; @%p2 bra TOP;'],
    [
      'entered in the middle by some threads',
      `setp.eq.u32 %p1, %r1, 0; @%p1 bra MIDDLE; TOP: add.u32 %r2, %r2, 1;
       MIDDLE: add.u32 %r2, %r2, 3; setp.ne.u32 %p2, %r3, 5; @%p2 bra TOP;`,
    ],
    [
      'of two halves, each of which is an entry',
      `setp.eq.u32 %p1, %r1, 0; @%p1 bra SECOND; FIRST: add.u32 %r2, %r2, 1; bra SECOND;
       SECOND: add.u32 %r2, %r2, 3; bra FIRST;`,
    ],
    [
      'around another one, entered behind that',
      `setp.eq.u32 %p1, %r1, 0; @%p1 bra BEHIND; TOP: mov.u32 %r3, 0;
       INNER: add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, 100; @%p2 bra INNER;
       BEHIND: add.u32 %r2, %r2, 2; setp.ne.u32 %p2, %r2, 5; @%p2 bra TOP;`,
    ],
  ] as const) {
    it(name, () => {
      const machine = new Machine()
      const module = machine.load(kernel(body))
      const launch = machine.prepare(module, 'k', { block: 32, instructionLimit: LIMIT }, [
        machine.put(new Uint32Array(1)),
      ])
      const fault = faultOf(() => launch.run())
      assert.equal(fault.code, 'CUDA_ERROR_LAUNCH_TIMEOUT')
      assert.match(fault.message, /more than 1000000 instructions/)
      // One turn of all threads is more than the limit: without what the loop used up, it would take hundreds of stops.
      assert.ok(launch.effort.stops <= 2, `it stopped ${launch.effort.stops} times`)
    })
  }
})

it('a kernel of four thousand loops that are entered in the middle computes what it says', () => {
  const count = 4000
  const loops = Array.from(
    { length: count },
    (_, index) => `setp.eq.u32 %p1, %r1, ${index}; @%p1 bra M${index};
      L${index}: add.u32 %r2, %r2, 1;
      M${index}: add.u32 %r2, %r2, 3; setp.lt.u32 %p2, %r2, ${index}; @%p2 bra L${index};`,
  )
  const machine = new Machine()
  const out = machine.put(new Uint32Array(1))
  machine.run(machine.load(kernel(loops.join('\n'))), 'k', { block: 1 }, [out])
  let expected = 0
  for (let index = 0; index < count; index++) {
    if (index !== 0) expected += 1
    expected += 3
    while (expected < index) expected += 4
  }
  assert.equal(machine.get(out, new Uint32Array(1))[0], expected)
})
