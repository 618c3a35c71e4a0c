/** Which bytes nobody can foretell, because work that is in no order touches them. */
import { bit, type Queued } from './work.js'

/** For each cell: did a race, or work without a promised result, leave its value open? */
export function openCells(queued: readonly Queued[], cells: number): boolean[] {
  const open = Array<boolean>(cells).fill(false)
  const contested = Array<boolean>(cells).fill(false)
  const readsRace = queued.map(() => false)
  for (const [later, { work, upTo }] of queued.entries()) {
    for (let earlier = 0; earlier < later; earlier += 1) {
      if ((upTo & bit(earlier)) !== 0n) continue
      for (const a of queued[earlier]?.work.accesses ?? []) {
        for (const b of work.accesses ?? []) {
          if (a.cell !== b.cell) continue
          if (a.write && b.write) contested[a.cell] = true
          if (a.read && b.write) readsRace[earlier] = true
          if (a.write && b.read) readsRace[later] = true
        }
      }
    }
  }
  for (const [id, { work }] of queued.entries()) {
    const accesses = work.accesses ?? []
    const result = work.undefinedResult || readsRace[id] || accesses.some(({ read, cell }) => read && open[cell])
    for (const { write, cell } of accesses) if (write) open[cell] = Boolean(result || contested[cell])
  }
  return open.map((is, cell) => is || contested[cell] === true)
}
