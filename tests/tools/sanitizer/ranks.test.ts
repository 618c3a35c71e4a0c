/** Ranks of NCCL are ordered as far as bytes flow between them, and no further: the simulator, the explorer and the sanitizer agree. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Device, type DeviceBuffer, Stream } from 'cuda-streams'
import { type Communicator, Communicator as Communicators, group } from 'cuda-streams/nccl'
import { Sanitizer } from 'cuda-streams/sanitizer'
import { explore, type Simulation, simulate } from 'cuda-streams/sim'
import { runs } from '../../helpers/effort.js'

const BYTES = 16
const TYPE = { type: 'i32' } as const
const RANKS = 3
/** Orders of a program that are tried at most: a wrong one is among the first. */
const RUNS = runs({ quick: 20, normal: 20, nightly: 120 })

interface Rank {
  readonly communicator: Communicator
  readonly device: Device
  readonly stream: Stream
  /** On the device of the rank, ordered with nothing. */
  readonly other: Stream
  readonly source: DeviceBuffer
  readonly destination: DeviceBuffer
  readonly all: DeviceBuffer
}
type Ranks = readonly [Rank, Rank, Rank]

/** What the ranks do together, and of what else each rank's stream comes after. */
interface Exchange {
  readonly name: string
  readonly run: (ranks: Ranks) => void
  /** [rank, rank]: the end of the first one's call comes after the second one has read its source. */
  readonly follows: readonly (readonly [number, number])[]
}

const each = (ranks: Ranks, call: (rank: Rank, index: number) => unknown): void =>
  group(() => {
    for (const [index, rank] of ranks.entries()) call(rank, index)
  })
const everyTwo = [0, 1, 2].flatMap((a) => [0, 1, 2].flatMap((b) => (a === b ? [] : [[a, b] as const])))

const EXCHANGES: readonly Exchange[] = [
  {
    name: 'allReduce',
    run: (ranks) => each(ranks, (r) => r.communicator.allReduce(r.stream, r.source, r.destination, { ...TYPE })),
    follows: everyTwo,
  },
  {
    name: 'allGather',
    run: (ranks) => each(ranks, (r) => r.communicator.allGather(r.stream, r.source, r.all, { ...TYPE })),
    follows: everyTwo,
  },
  {
    name: 'reduce',
    run: (ranks) =>
      each(ranks, (r, index) =>
        r.communicator.reduce(r.stream, r.source, index === 0 ? r.destination : undefined, {
          ...TYPE,
          root: 0,
        }),
      ),
    follows: [
      [0, 1],
      [0, 2],
    ],
  },
  {
    name: 'broadcast',
    run: (ranks) =>
      each(ranks, (r, index) =>
        r.communicator.broadcast(r.stream, index === 0 ? r.source : undefined, r.destination, {
          ...TYPE,
          root: 0,
        }),
      ),
    follows: [
      [1, 0],
      [2, 0],
    ],
  },
  {
    name: 'send and recv',
    run: ([one, two]) =>
      group(() => {
        one.communicator.send(one.stream, one.source, { ...TYPE, peer: 1 })
        two.communicator.recv(two.stream, two.destination, { ...TYPE, peer: 0 })
      }),
    follows: [[1, 0]],
  },
  {
    name: 'sends both ways',
    run: (ranks) =>
      group(() => {
        for (const [index, { communicator, source, destination, stream }] of ranks.entries()) {
          communicator.send(stream, source, { ...TYPE, peer: (index + 1) % RANKS })
          communicator.recv(stream, destination, { ...TYPE, peer: (index + RANKS - 1) % RANKS })
        }
      }),
    follows: [
      [1, 0],
      [2, 1],
      [0, 2],
    ],
  },
]

async function ranksOf(simulation: Simulation): Promise<Ranks> {
  const communicators = await Communicators.createAll(simulation.devices)
  const ranks = communicators.map((communicator) => {
    const { device } = communicator
    const [stream, other] = [new Stream({ device }), new Stream({ device })]
    const [source, destination, all] = [device.alloc(BYTES), device.alloc(BYTES), device.alloc(RANKS * BYTES)]
    stream.fill(source, communicator.rank + 1, { width: 4 })
    stream.fill(destination, 0)
    stream.synchronize()
    return { communicator, device, stream, other, source, destination, all }
  })
  return ranks as unknown as Ranks
}

/** After the exchange the source of one rank is written again by a stream that waits for another rank alone. */
const overwrite =
  ({ run }: Exchange, waited: number, written: number) =>
  async (simulation: Simulation): Promise<unknown> => {
    const ranks = await ranksOf(simulation)
    run(ranks)
    const [one, two] = [ranks[waited], ranks[written]] as [Rank, Rank]
    two.other.wait(one.stream)
    two.other.fill(two.source, 9)
    return Promise.all(
      ranks.map(async ({ stream, destination, all }) => [
        await stream.download(destination),
        await stream.download(all),
      ]),
    )
  }

/** A result is read by a stream that waits for another rank alone: never in order. */
const readAnother =
  ({ run }: Exchange, waited: number, read: number) =>
  async (simulation: Simulation): Promise<unknown> => {
    const ranks = await ranksOf(simulation)
    run(ranks)
    const [one, two] = [ranks[waited], ranks[read]] as [Rank, Rank]
    two.other.wait(one.stream)
    return two.other.download(two.destination)
  }

async function judged(program: (simulation: Simulation) => Promise<unknown>): Promise<readonly [string, boolean]> {
  const { verdict } = await explore(program, { devices: RANKS, maxRuns: RUNS })
  using simulation = simulate({ devices: RANKS })
  using sanitizer = Sanitizer.start({ device: simulation.devices[0] })
  await program(simulation)
  return [verdict, sanitizer.reports.length > 0]
}

for (const exchange of EXCHANGES) {
  describe(exchange.name, () => {
    const pairs = exchange.name === 'send and recv' ? everyTwo.filter((pair) => !pair.includes(2)) : everyTwo
    for (const [waited, other] of pairs) {
      const isOrdered = exchange.follows.some(([a, b]) => a === waited && b === other)
      // A rank whose source is not read has nothing that could be overwritten.
      const isRead = !['broadcast', 'send and recv'].includes(exchange.name) || other === 0
      if (isRead) {
        it(`rank ${waited} ${isOrdered ? 'comes' : 'does not come'} after the reading of rank ${other}`, async () => {
          const expected = isOrdered ? ['agree', false] : ['disagree', true]
          assert.deepEqual(await judged(overwrite(exchange, waited, other)), expected)
        })
      }
      const isWritten = { reduce: [0], broadcast: [0, 1, 2], 'send and recv': [1], allGather: [] }[exchange.name] ?? [
        0, 1, 2,
      ]
      if (!isWritten.includes(other)) continue
      it(`rank ${waited} does not come after the writing of rank ${other}`, async () => {
        assert.deepEqual(await judged(readAnother(exchange, waited, other)), ['disagree', true])
      })
    }
  })
}
