/** Counts, for every pair: `node dist/tests/sanitizer/pairs/count.js [words of names]`. */
import { pairs } from './pairs.js'
import { stories } from './stories.js'
import { explored, mendedByAdvice, reportsOf } from './run.js'

const wanted = process.argv.slice(2)
const all = [...pairs(), ...stories].filter(({ name }) => wanted.every((word) => name.includes(word)))
const counts = { pairs: all.length, noBug: 0, notMended: 0, missed: 0, falseAlarm: 0, advice: 0, adviceWrong: 0, mends: 0, mendsNot: 0 }
for (const { name, devices, bug, mended } of all) {
  const [broken, right] = [await explored(bug, devices), await explored(mended, devices)]
  const told: string[] = []
  if (broken.verdict !== 'disagree') told.push(`no bug: ${broken.verdict}`), (counts.noBug += 1)
  if (right.verdict !== 'agree') told.push(`not mended: ${right.message}`), (counts.notMended += 1)
  const [found, alarms] = [await reportsOf(bug, devices), await reportsOf(mended, devices)]
  if (found.length === 0) told.push('missed'), (counts.missed += 1)
  if (alarms.length > 0) told.push(`false alarm: ${alarms[0]?.message}`), (counts.falseAlarm += 1)
  if (found.length > 0) {
    const advised = await mendedByAdvice(bug, devices).catch((error: unknown) => void told.push(String(error)))
    const verdict = advised === undefined ? 'none' : (await explored(advised, devices)).verdict
    if (verdict === 'agree') counts.advice += 1
    else told.push(`advice (${verdict}): ${found[0]?.message}`), (counts.adviceWrong += 1)
  }
  if (process.env['MEND'] !== '0') {
    const { verdict } = await explored(bug, devices, true)
    if (verdict === 'agree') counts.mends += 1
    else told.push(`mend mode: ${verdict}`), (counts.mendsNot += 1)
  }
  if (told.length > 0) console.log(`${name}\n  ${told.join('\n  ')}`)
}
console.log(counts)
