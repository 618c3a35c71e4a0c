/** Counts, for every pair: `node dist/tests/tools/sanitizer/pairs/count.js [words of names]`. Takes a few minutes. */
import { pairs } from './pairs.js'
import { explored, fixedByAdvice, reportsOf } from './run.js'
import { stories } from './stories.js'

const wanted = process.argv.slice(2)
const all = [...pairs(), ...stories].filter(({ name }) => wanted.every((word) => name.includes(word)))
const counts = new Map<string, number>()

for (const { name, devices, bug, fixed } of all) {
  const told: string[] = []
  const note = (what: string, isTold: boolean, more = ''): void => {
    counts.set(what, (counts.get(what) ?? 0) + 1)
    if (isTold) told.push(`${what} ${more}`)
  }
  const [broken, right] = [await explored(bug, devices), await explored(fixed, devices)]
  if (broken.verdict !== 'disagree') note('no bug', true, broken.verdict)
  if (right.verdict !== 'agree') note('not fixed', true, right.message)
  const [found, alarms] = [await reportsOf(bug, devices), await reportsOf(fixed, devices)]
  if (alarms.length > 0) note('false alarm', true, alarms[0]?.message)
  const [causal, causalAlarms] = [await reportsOf(bug, devices, true), await reportsOf(fixed, devices, true)]
  note(causal.length > 0 ? 'reported with causal' : 'missed with causal', causal.length === 0)
  if (causalAlarms.length > 0) note('false alarm with causal', true, causalAlarms[0]?.message)
  if (found.length === 0) note('missed', true)
  else {
    note('reported', false)
    const advised = await fixedByAdvice(bug, devices).catch((error: unknown) => void told.push(String(error)))
    const isRight = advised !== undefined && (await explored(advised, devices)).verdict === 'agree'
    note(isRight ? 'advice, followed, helps' : 'advice does not help', !isRight, found[0]?.message)
    const isFixed = (await explored(bug, devices, true)).verdict === 'agree'
    note(isFixed ? 'fixed by the library' : 'not fixed by the library', !isFixed)
  }
  if (told.length > 0) console.log(`${name}\n  ${told.join('\n  ')}`)
}
console.log(`${all.length} pairs`)
console.log([...counts].map(([what, count]) => `${what}: ${count}`).join('\n'))
