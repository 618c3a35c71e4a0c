/** A missing wait, found on a simulated GPU, without a project: what this package is for, in a few seconds. */
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { VARIABLES } from '../../foundation/base/environment-variables.js'

const FILE = fileURLToPath(new URL('../../../examples/race.js', import.meta.url))

/** Runs a program with a race and without it, prints what the sanitizer says of both, and returns the exit code. */
export function demo(): number {
  const text = readFileSync(FILE, 'utf8')
  console.log(
    `Two streams and one buffer, on a simulated GPU:\n\n${indented(text.slice(text.indexOf('const device')))}`,
  )
  const racy = run([])
  console.log(`Without the wait, under CUDA_STREAMS_SANITIZER=1:\n\n${indented(racy)}`)
  const right = run(['wait'])
  console.log(`With the wait:\n\n${indented(right)}`)
  console.log(
    'The same for PyTorch and CuPy: npx cuda-streams sanitize -- python train.py. More: https://github.com/cuda-streams/cuda-streams#readme',
  )
  return racy.includes('Race: ') && !right.includes('Race: ') ? 0 : 1
}

function run(args: readonly string[]): string {
  const env = { ...process.env, [VARIABLES.driver.name]: 'sim', [VARIABLES.sanitizer.name]: '1' }
  const { stdout, stderr } = spawnSync(process.execPath, [FILE, ...args], { encoding: 'utf8', env })
  return `${stderr}${stdout}`
}

const indented = (text: string): string => `${text.trim().replace(/^(?=.)/gm, '  ')}\n`
