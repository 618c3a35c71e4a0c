/** What a host function comes after: its place, what it waits for itself, and what those before it waited for; no chance. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Device, type PinnedBuffer, Stream } from 'cuda-streams'
import { Sanitizer } from 'cuda-streams/sanitizer'
import { busy, explore, type Simulation, simulate } from 'cuda-streams/sim'

interface Scene {
  readonly device: Device
  /** It was given a copy to the pinned memory. */
  readonly copies: Stream
  /** Those of two host functions. */
  readonly one: Stream
  readonly other: Stream
  readonly pinned: PinnedBuffer
  /** Looks at the pinned memory. */
  look(): void
}

type Program = (scene: Scene) => void

async function run({ devices: [device] }: Simulation, program: Program, begin: () => void): Promise<unknown> {
  assert.ok(device)
  const [copies, one, other] = [new Stream({ device }), new Stream({ device }), new Stream({ device })]
  const [data, pinned] = [device.alloc(4), device.allocPinned(4)]
  pinned.bytes.fill(7)
  device.defaultStream.fill(data, 1)
  device.synchronize()
  begin()
  copies.copy(pinned, data)
  let seen: unknown
  const look = (): void => {
    seen = pinned.view(Uint32Array)[0]
  }
  program({ device, copies, one, other, pinned, look })
  device.synchronize()
  return seen
}

function until(isDone: () => boolean): void {
  while (!isDone());
}

const cases: Readonly<Record<string, { readonly racy: boolean; readonly program: Program }>> = {
  'a host function that comes after one that has waited': {
    racy: false,
    program: ({ copies, one, other, look }) => {
      one.launchHostFunc(() => copies.synchronize())
      other.wait(one).launchHostFunc(look)
    },
  },
  'one that comes after that in the same stream': {
    racy: false,
    program: ({ copies, one, look }) => {
      one.launchHostFunc(() => copies.synchronize()).launchHostFunc(look)
    },
  },
  'one that does not come after it': {
    racy: true,
    program: ({ copies, one, other, look }) => {
      one.launchHostFunc(() => copies.synchronize())
      other.launchHostFunc(look)
    },
  },
  'one that lets it run inside, since it waits for its stream': {
    racy: false,
    program: ({ copies, one, other, look }) => {
      other.launchHostFunc(() => {
        one.synchronize()
        look()
      })
      one.launchHostFunc(() => until(() => copies.query()))
    },
  },
  'one that is before it, and looks only then': {
    racy: true,
    program: ({ copies, one, look }) => {
      one.launchHostFunc(look)
      one.launchHostFunc(() => copies.synchronize())
    },
  },
  'one that waits for something else while another runs by chance': {
    racy: true,
    program: ({ device, copies, one, look }) => {
      const slow = new Stream({ device })
      busy(slow, 1_000_000)
      one.launchHostFunc(() => {
        slow.synchronize()
        look()
      })
      copies.launchHostFunc(() => {})
    },
  },
}

for (const [title, { racy, program }] of Object.entries(cases)) {
  describe(title, () => {
    it(`${racy ? 'can' : 'cannot'} come to something else`, async () => {
      const { verdict, message } = await explore((simulation) => run(simulation, program, () => {}))
      assert.equal(verdict, racy ? 'disagree' : 'agree', message)
    })

    it(racy ? 'is reported' : 'is not reported', async () => {
      using simulation = simulate()
      let sanitizer: Sanitizer | undefined
      await run(simulation, program, () => {
        sanitizer = Sanitizer.start({ device: simulation.devices[0] })
      })
      sanitizer?.stop()
      assert.deepEqual(
        sanitizer?.reports.map(({ kind }) => kind),
        racy ? ['host-access'] : [],
      )
    })
  })
}
