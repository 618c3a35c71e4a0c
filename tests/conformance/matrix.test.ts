/**
 * Every public call that queues, waits, makes or closes something, behind a host function that stands somewhere, on every
 * kind of stream, inside and beside captures, with every kind of memory: it returns within a second or throws what the rules
 * say (catalogue/rules.ts), runs no host function unless it waits, and leaves a machine that works. Then: calls inside of which
 * a host function, or a getter of the program, closes what they use. What may hang or crash is played by child processes.
 */
import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { isFakeDriver } from '../fake-driver/fake-cuda.js'
import { byEffort } from '../helpers/effort.js'
import { ofTheDay, playedToday } from '../helpers/of-the-day.js'
import { onEveryBackend } from '../helpers/suite.js'
import type { Workbench } from '../helpers/workbench.js'
import { backendOf } from '../torture/backend.js'
import { player, type Report } from './matrix/children.js'
import { TABLES } from './matrix/table.js'

/** How many child processes play a table: to start one, and to compile what it runs, costs more than a thousand cells. */
const CHILDREN: Readonly<Record<string, number>> = byEffort({
  quick: {},
  normal: {},
  nightly: { calls: 12, closings: 4, standing: 4, 'user code': 4 },
})
/** In so many days each call has its turn. */
const DAYS = 3
/** Failures that the message of a test names. */
const MOST_NAMED = 5
/** What a whole run takes at most, however slow the machine. */
const LONGEST = 600_000

onEveryBackend('matrix', (bench: Workbench) => {
  const backend = backendOf(bench)
  // In what order the simulated GPU does things makes no difference to what was closed before.
  const tables = backend.startsWith('sim') && backend !== 'sim:0' ? ['calls'] : Object.keys(TABLES)
  // On a GPU the tables mostly wait.
  const concurrency = bench.name === 'cuda' && !isFakeDriver() ? tables.length : 1
  describe('its tables', { concurrency, timeout: LONGEST }, () => {
    for (const table of tables) {
      const all = TABLES[table] ?? []
      const rows = ofTheDay(all, DAYS)
      describe(table, { concurrency: rows.length, timeout: LONGEST }, () => {
        const play = player(backend, bench.name, table, CHILDREN[table] ?? 1)
        const totals = { cells: 0, failures: 0, skipped: 0 }
        for (const { name } of rows) {
          it(name, { timeout: LONGEST }, async (context) => {
            const report = await play(name)
            const { cells, failures, skipped, lacks } = report
            if (lacks !== undefined) return context.skip(lacks)
            totals.cells += cells
            totals.failures += failures.length
            context.diagnostic(`${cells} cells`)
            for (const [why, count] of skipped) {
              totals.skipped += count
              context.diagnostic(`${count} not played: ${why}`)
            }
            assert.ok(cells > 0, 'no cell was played')
            assert.ok(failures.length === 0, describeFailures(report))
            return undefined
          })
        }
        after(() => {
          const { cells, failures, skipped } = totals
          console.log(
            `${bench.title}, ${table}: ${playedToday(rows.length, all.length)}: ${cells} cells played, ${failures} failed, ${skipped} not played`,
          )
        })
      })
    }
  })
})

/** Of each kind of failure the first cell, and how many there are. */
function describeFailures({ cells, failures }: Report): string {
  const kinds = new Map<string, string[]>()
  for (const { cell, what } of failures) kinds.set(what, [...(kinds.get(what) ?? []), cell])
  const named = [...kinds].slice(0, MOST_NAMED).map(([what, where]) => `${where.length} x ${what}\n    ${where[0]}`)
  const more = kinds.size > MOST_NAMED ? [`and ${kinds.size - MOST_NAMED} more kinds`] : []
  return [`${failures.length} failure(s) in ${cells} cells:`, ...named, ...more].join('\n  ')
}
