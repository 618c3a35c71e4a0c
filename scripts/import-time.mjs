// How much longer Node takes to start where it imports the package: the median of 30 processes of each kind, taking turns.
import { spawnSync } from 'node:child_process'

const ROUNDS = 30
const KINDS = {
  'bare Node': ['--input-type=module', '--eval', '0'],
  ...Object.fromEntries(
    ['cuda-streams', 'cuda-streams/sim', 'cuda-streams/sanitizer', 'cuda-streams/timeline'].map((name) => [
      `import '${name}'`,
      ['--input-type=module', '--eval', `import ${JSON.stringify(import.meta.resolve(name))}`],
    ]),
  ),
}

const times = new Map(Object.keys(KINDS).map((kind) => [kind, []]))
for (let round = 0; round < ROUNDS; round += 1) {
  for (const [kind, args] of Object.entries(KINDS)) {
    const began = performance.now()
    const { status, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' })
    if (status !== 0) throw new Error(stderr)
    times.get(kind).push(performance.now() - began)
  }
}
const median = (values) => values.toSorted((one, other) => one - other)[Math.floor(values.length / 2)]
const bare = median(times.get('bare Node'))
for (const [kind, values] of times) {
  console.log(
    `${kind.padEnd(34)} ${median(values).toFixed(1).padStart(6)} ms  (+${(median(values) - bare).toFixed(1)})`,
  )
}
