/** Writes all launches whose results a GPU records to the file that is named: `node dist/tests/ptx/warpgroup/record.js cases.json`. */
import { writeFileSync } from 'node:fs'
import { allLaunches } from './cases.js'
import { warpLaunches } from './warp-cases.js'

const texts = new Map<string, string>()
const cases = [...allLaunches(), ...warpLaunches()].map((each) => {
  const name = texts.get(each.text) ?? `t${texts.size}`
  texts.set(each.text, name)
  return { ...each, text: name }
})
const named = Object.fromEntries([...texts].map(([text, name]) => [name, text]))
writeFileSync(process.argv[2] ?? 'cases.json', JSON.stringify({ texts: named, cases }))
