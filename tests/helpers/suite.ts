/** Runs the same tests on every backend that this machine has; a backend that is not there is a printed skip. */
import { describe, test } from 'node:test'
import { type Workbench, workbenches } from './workbench.js'

const { benches, withoutCuda } = workbenches()

export function onEveryBackend(title: string, define: (bench: Workbench) => void): void {
  for (const bench of benches) describe(`${title} [${bench.title}]`, () => define(bench))
  if (withoutCuda !== undefined) {
    test(`${title} [cuda]`, { skip: `no NVIDIA driver here: ${withoutCuda}` }, () => {})
  }
}
