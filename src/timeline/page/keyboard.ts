/** Keys, wherever the focus is, but in the search box and in a dialog. */

/** What each key does; letters in lower case. */
export type Keys = Readonly<Record<string, () => void>>

export function listenToKeys(keys: Keys, isModal: () => boolean, pressed: () => void): void {
  document.addEventListener('keydown', (event) => {
    const { target, key } = event
    if (event.ctrlKey || event.metaKey || event.altKey || isModal()) return
    if (target instanceof HTMLInputElement && target.type === 'search') return
    // Enter on a button is that button's.
    if (key === 'Enter' && target instanceof HTMLButtonElement) return
    const action = keys[key.length === 1 ? key.toLowerCase() : key]
    if (action === undefined) return
    event.preventDefault()
    pressed()
    action()
  })
}
