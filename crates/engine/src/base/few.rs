//! A list whose first `N` elements take no memory of the host's heap.

/// A list that mostly has at most `N` elements. Further ones lie on the heap.
#[derive(Debug)]
pub(crate) struct Few<T, const N: usize> {
    /// Filled from the front, and full where `rest` has any.
    first: [Option<T>; N],
    rest: Vec<T>,
}

impl<T, const N: usize> Few<T, N> {
    pub(crate) const fn new() -> Few<T, N> {
        Few { first: [const { None }; N], rest: Vec::new() }
    }

    pub(crate) fn push(&mut self, element: T) {
        match self.first.iter_mut().find(|place| place.is_none()) {
            Some(place) => *place = Some(element),
            None => self.rest.push(element),
        }
    }

    /// Takes the last element out.
    pub(crate) fn pop(&mut self) -> Option<T> {
        self.rest.pop().or_else(|| self.first.iter_mut().rev().find_map(Option::take))
    }

    pub(crate) fn last(&self) -> Option<&T> {
        self.rest.last().or_else(|| self.first.iter().rev().find_map(Option::as_ref))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.last().is_none()
    }
}

impl<T, const N: usize> Default for Few<T, N> {
    fn default() -> Few<T, N> {
        Few::new()
    }
}

impl<T, const N: usize> Extend<T> for Few<T, N> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, elements: I) {
        elements.into_iter().for_each(|element| self.push(element));
    }
}

impl<T, const N: usize> FromIterator<T> for Few<T, N> {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> Few<T, N> {
        let mut few = Few::new();
        few.extend(elements);
        few
    }
}

impl<T, const N: usize> IntoIterator for Few<T, N> {
    type Item = T;
    type IntoIter = std::iter::Chain<std::iter::Flatten<std::array::IntoIter<Option<T>, N>>, std::vec::IntoIter<T>>;

    fn into_iter(self) -> Self::IntoIter {
        self.first.into_iter().flatten().chain(self.rest)
    }
}

#[cfg(test)]
mod tests {
    use super::Few;

    #[test]
    fn elements_stay_in_order_and_the_last_one_comes_out_first() {
        for count in 0..5 {
            let mut few: Few<u32, 2> = (0..count).collect();
            assert_eq!((few.last().copied(), few.is_empty()), (count.checked_sub(1), count == 0));
            let next = few.pop();
            assert_eq!(next, count.checked_sub(1));
            few.extend(next);
            assert_eq!(few.into_iter().collect::<Vec<_>>(), (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_first_elements_take_no_memory_of_the_heap() {
        let mut few: Few<u32, 2> = (0..2).collect();
        assert_eq!(few.rest.capacity(), 0);
        few.push(2);
        assert_eq!(few.rest, [2]);
    }
}
