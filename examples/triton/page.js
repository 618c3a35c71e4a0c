import { run } from './program.js'

const text = document.querySelector('p')
text.textContent = await run()
// Saving softmax.py loads the page again, with what the kernel is then.
