/** Which registers live where, in long kernels: what is found, and in how many steps. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { controlFlowOf, liveAtStart } from '../../src/ptx/control-flow.js'
import { parsePtx } from '../../src/ptx/parser.js'

/** A kernel that meets so many times, all in a loop or one behind the other, and uses %tid.x and its parameter behind the last meeting. */
function rowOfMeetings(meetings: number, isLoop: boolean): string {
  const each = Array.from({ length: meetings }, (_, at) => `bar.warp.sync -1; add.u32 %r${at + 2}, %r${at + 1}, 1;`)
  return `.version 7.0
.target sm_80
.address_size 64
.visible .entry row(.param .u64 out) {
.reg .b32 %r<${meetings + 2}>; .reg .b64 %rd<1>; .reg .pred %p;
ld.param.u64 %rd0, [out]; mov.u32 %r0, %tid.x; mov.u32 %r1, 0;
AGAIN:
${each.join('\n')}
add.u32 %r1, %r1, %r${meetings + 1}; setp.lt.u32 %p, %r1, 1000;
${isLoop ? '@%p bra AGAIN;' : ''}
st.global.u32 [%rd0], %r0;
ret;
}
`
}

describe('the registers that live behind each meeting are found in as many steps as the text is long', () => {
  for (const isLoop of [false, true]) {
    it(isLoop ? 'of a loop with many meetings' : 'of many meetings one behind the other', () => {
      const meetings = 400
      const fn = parsePtx(rowOfMeetings(meetings, isLoop)).functions.get('row')
      assert.ok(fn)
      let looks = 0
      const blocks = controlFlowOf(fn, () => false).blocks.map((block) => ({
        ...block,
        get terminator() {
          looks++
          return block.terminator
        },
      }))
      const live = liveAtStart({ fn, blocks })
      assert.ok(looks <= 20 * blocks.length, `${looks} looks at ${blocks.length} blocks`)
      const used = fn.registers.filter(({ name }) => name === '%r0' || name === '%rd0').map(({ id }) => id)
      assert.equal(used.length, 2)
      const resumed = [...blocks.entries()].filter(([, { receives }]) => receives !== undefined)
      assert.equal(resumed.length, meetings)
      for (const [block] of resumed) for (const id of used) assert.ok(live.at(block).has(id), `block ${block}, ${id}`)
      // One way to ask is as good as the other, and what is left out of all blocks is left out of each.
      const [first = 0, ...others] = used
      for (const [block] of resumed) {
        const listed: number[] = []
        live.forEach(block, (id) => listed.push(id))
        assert.deepEqual(new Set(listed), live.at(block))
        const rest = live.without(new Set([first])).at(block)
        assert.deepEqual(new Set([...rest, first]), live.at(block))
        assert.ok(!rest.has(first) && others.every((id) => rest.has(id)))
      }
    })
  }
})
