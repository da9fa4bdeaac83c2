// A field that filters what is below it.
import { Icon } from './icons';

export function SearchBox(props: {
  label: string;
  value: string;
  onChange: (value: string) => void;
}) {
  return (
    <label class="search">
      <span class="hidden">{props.label}</span>
      <Icon name="search" />
      <input
        type="search"
        value={props.value}
        placeholder={props.label}
        spellcheck={false}
        onInput={(event) => props.onChange(event.currentTarget.value)}
      />
    </label>
  );
}
