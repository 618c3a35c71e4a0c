// What a search finds first: what teaches comes before what is looked up, and what is inside comes last. tests/site/search.test.ts has queries.

/**
 * Words by which people look for a section that says it in others, by its page and anchor. They are in the index, and nowhere in the page, and the
 * section comes before others that have them.
 */
const ALSO_CALLED = {
  'concepts/graphs#graphs': 'cuda graph',
  'concepts/memory#memory': 'page-locked pinned memory',
  'guides/cu#cuda-c-in-a-typescript-project': '.cu file',
  'guides/python#streams': 'share stream pytorch',
  'guides/sanitizer#starting-it': 'sanitizer',
  'guides/testing#testing-your-gpu-code': 'without no gpu ci',
  'guides/timeline#timelines': 'profile trace',
  'look-up/memory#out-of-memory': 'out memory',
  'look-up/errors#waiting-and-never-forever': 'deadlock callback hangs',
}

/** The HTML that is indexed of a page. */
export function searched(source, env, markdown) {
  const html = markdown.render(source, env)
  if (env.frontmatter?.search === false) return ''
  let text = html
  for (const [section, words] of Object.entries(ALSO_CALLED)) {
    const [path, anchor] = section.split('#')
    if (`${path}.md` !== env.relativePath) continue
    const heading = new RegExp(`<h(\\d) id="${anchor}".*?</h\\1>`, 's')
    if (!heading.test(html))
      throw new Error(`${path} has no section ${anchor}, for which site/.vitepress/search.mjs has words`)
    text = text.replace(heading, (all) => `${all}<p>${words}</p>`)
  }
  return text
}

/** How much a word counts that was found in a section. It is written into the page as its text: all that it needs it is given. */
const rank = (id, term, title, called) => {
  const ranks = { tutorials: 6, guides: 6, concepts: 6, readme: 3, 'look-up': 3, examples: 1, reference: 0.5 }
  const [path] = id.split('#')
  // Tables of all names, of this library and of others, have every word.
  if (/\/(?:look-up\/(?:api|cuda-runtime)|guides\/coming-from)\b/.test(path)) return ranks.reference
  const kind = /^\/(?:.*?\/)?(tutorials|guides|concepts|readme|look-up|examples|reference)\b/.exec(path)?.[1]
  const section = Object.keys(called).find((one) => id.endsWith(`/${one.replace('#', '.html#')}`))
  if (section !== undefined && called[section].split(/\W/).includes(term)) return 3 * ranks[kind]
  // A name of the library's own that is written whole means its page.
  const name = title.replace(/^[A-Z][a-z ]+: |[(?<&].*$/g, '')
  if (kind === 'reference' && /[a-z][A-Z]/.test(name) && name.toLowerCase() === term) return 5
  // What is left is about how it is made.
  return ranks[kind] ?? 0.02
}

const boostDocument = (id, term, { title }) => rank(id, term, title, ALSO_CALLED)
boostDocument.toString = () => `(id, term, { title }) => (${rank})(id, term, title, ${JSON.stringify(ALSO_CALLED)})`

export const searchOptions = {
  // All words, not one of them: else a variable's name finds each page that has a part of it.
  combineWith: 'AND',
  /** Words that say nothing of what is looked for need not be there. */
  processTerm: (term) => {
    const word = term.toLowerCase()
    const isLeftOut = /^(?:an?|and|are|can|do|does|for|from|how|i|in|is|it|my|of|on|or|the|to|what|when|with)$/.test(
      word,
    )
    return isLeftOut ? null : word
  },
  boostDocument,
}
