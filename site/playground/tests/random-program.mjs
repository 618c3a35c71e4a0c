// Random programs as text: streams, buffers, events, host functions, waits and queries, whatever comes of them.

/** A number below the limit each time, the same for the same seed. */
function randomFrom(seed) {
  let state = (seed * 2_654_435_761 + 1) % 2_147_483_647
  return (limit) => {
    state = (state * 48_271) % 2_147_483_647
    return Math.floor((state / 2_147_483_647) * limit)
  }
}

export function randomProgram(seed) {
  const random = randomFrom(seed)
  const of = (names) => names[random(names.length)]
  const streams = ['a', 'b', 'c', 'Stream.null']
  const buffers = ['x', 'y', 'z']
  const lines = [
    "import { Device, Stream } from 'cuda-streams'",
    "import { busy, simulationOf } from 'cuda-streams/sim'",
    'const device = Device.get()',
    `const a = new Stream({ priority: ${-random(2)} })`,
    `const b = new Stream({ nonBlocking: ${random(2) === 0} })`,
    'const c = device.createStream()',
    ...buffers.map((name) => `const ${name} = device.alloc(8, { stream: ${of(streams)} })`),
    'const pinned = device.allocPinned(8)',
    'const marks = [a.record(), b.record()]',
    'const log: string[] = []',
  ]
  const steps = [
    () => `${of(streams)}.fill(${of(buffers)}, ${random(256)})`,
    () => `${of(streams)}.fill(${of(buffers)}.slice(4, 4), ${random(60_000)}, { width: 2 })`,
    () => {
      const [to, from] = [of(buffers), of([...buffers, 'pinned'])]
      return to === from ? `${of(streams)}.copy(pinned, ${to})` : `${of(streams)}.copy(${to}, ${from})`
    },
    () => `${of(streams)}.wait(${of(streams)})`,
    () => `${of(streams)}.record(marks[${random(2)}])`,
    () => `${of(streams)}.wait(marks[${random(2)}]!)`,
    () => `busy(${of(streams)}, ${random(20_000)})`,
    () => {
      const label = random(1000)
      return `${of(streams)}.launchHostFunc(() => void log.push('${label} at ' + simulationOf(device).now))`
    },
    () => `log.push(String(${of(streams)}.query()))`,
    () => `${of(streams)}.synchronize()`,
    () => `await ${of(streams)}.finished()`,
    () => `log.push(String(await ${of(streams)}.download(${of(buffers)})))`,
    () => `${of(streams)}.upload(${of(buffers)}, Uint8Array.of(${Array.from({ length: 8 }, () => random(256))}))`,
    () => `pinned.bytes.fill(${random(256)})`,
    () => `if (marks[${random(2)}]!.query()) log.push('done')`,
    () => `console.log(${of(buffers)}.byteLength, marks[${random(2)}]!.timing)`,
    () => `log.push(String(marks[0] === undefined), String(await marks[${random(2)}]!.finished()))`,
    // Some end in an error, which is an outcome, too.
    () => (random(6) === 0 ? `a.fill(${of(buffers)}, ${256 + random(3)})` : `c.wait(a)`),
    () => (random(6) === 0 ? `${of(buffers)}.close()` : `a.wait(b)`),
  ]
  const count = 3 + random(25)
  for (let step = 0; step < count; step += 1) lines.push(of(steps)())
  lines.push('device.synchronize()', 'export const bytes = [await a.download(x), await b.download(y), pinned.bytes]')
  lines.push('export { log }', 'export const now = simulationOf(device).now', '')
  return lines.join('\n')
}
