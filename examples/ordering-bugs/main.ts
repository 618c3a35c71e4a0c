/** `node dist/examples/ordering-bugs/main.js [name]`: explores each injected bug; with a name, prints the whole report of it. */
import { explore } from 'cuda-streams/sim'
import { bugs } from './bugs.js'

const [wanted] = process.argv.slice(2)
const names = bugs.map(({ name }) => name)
if (wanted !== undefined && !names.includes(wanted)) {
  console.error(`There is no '${wanted}' among them: ${names.join(', ')}`)
  process.exit(2)
}
for (const { name, story, missing, broken, fixed } of bugs) {
  if (wanted !== undefined && wanted !== name) continue
  const found = await explore(broken, { devices: 2 })
  const clean = await explore(fixed, { devices: 2 })
  console.log(`${name}: ${story}`)
  if (wanted !== undefined) console.log(`\n${found.message}\n`)
  console.log(`  what is missing: ${missing}`)
  console.log(`  broken: ${found.verdict}, in ${found.runs} run(s). ${found.disagreement?.missing.split('\n').at(-1)}`)
  console.log(`  fixed: ${clean.message}`)
}
