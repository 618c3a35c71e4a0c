/** A workbench by name, for child processes and workers: 'cuda', or 'sim:7' for the simulator with seed 7. */
import { simulationOf } from 'cuda-streams/sim'
import { openCudaWorkbench } from '../helpers/cuda-workbench.js'
import { simWorkbench, type Workbench } from '../helpers/workbench.js'

export function openBackend(name: string): Workbench {
  if (name === 'cuda') {
    const bench = openCudaWorkbench()
    if (typeof bench === 'string') throw new Error(`no cuda backend: ${bench}`)
    return bench
  }
  const seed = /^sim:(\d+)$/.exec(name)?.[1]
  if (seed === undefined) throw new Error(`no backend has the name '${name}'`)
  return simWorkbench({ seed: Number(seed) })
}

export function backendOf(bench: Workbench): string {
  return bench.name === 'cuda' ? 'cuda' : `sim:${simulationOf(bench.device).seed}`
}
