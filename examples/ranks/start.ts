/** A launcher for machines without one: `node dist/examples/ranks/start.js 4 main.js` starts four ranks of main.js. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

const [size = '', script = 'main.js', ...rest] = process.argv.slice(2)
const count = Number(size)
if (!Number.isInteger(count) || count < 1) throw new RangeError(`how many ranks? '${size}' is no number from 1 on`)
const path = fileURLToPath(new URL(script, import.meta.url))
const ranks = Array.from({ length: count }, (_, rank) => {
  const env = { ...process.env, RANK: `${rank}`, LOCAL_RANK: `${rank}`, WORLD_SIZE: size }
  return spawn(process.execPath, [path, ...rest], { stdio: 'inherit', env })
})
const codes = await Promise.all(ranks.map(async (child) => (await once(child, 'exit'))[0] as number | null))
process.exitCode = codes.every((code) => code === 0) ? 0 : 1
